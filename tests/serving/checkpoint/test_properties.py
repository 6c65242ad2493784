"""Whatever the config: either a model whose numbers add up, or a refusal in words."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.checkpoint.loader import deciding_keys, model_from_config
from serving.checkpoint.report import bytes_by_kind, quantisation_report
from serving.checkpoint.stored import stored_parts
from serving.errors import ConfigurationError, UnknownFactError
from tests.serving.checkpoint.configs import EVERY, SMALL_DENSE, SMALL_GPT_OSS, SMALL_INT4, SMALL_LATENT

SMALL = [SMALL_DENSE, SMALL_LATENT, SMALL_INT4, SMALL_GPT_OSS]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths(config, prefix=()):
    for key, value in config.items():
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from paths(value, (*prefix, key))


@st.composite
def spoiled(draw):
    config = copy.deepcopy(draw(st.sampled_from([*SMALL, EVERY["kimi-k2.5"], EVERY["deepseek-v3.2"]])))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(list(paths(config))))
        inner = config
        for key in parents:
            inner = inner[key]
        if draw(st.booleans()):
            inner[last] = draw(JUNK)
        else:
            inner.pop(last)
        if not config:
            break
    return config


@settings(max_examples=300, deadline=None)
@given(spoiled())
def test_junk_is_refused_or_understood_and_never_crashes(config):
    try:
        model = model_from_config("junk", config, source="test")
    except ConfigurationError as error:
        assert error.faults
        assert all(fault.key and fault.accepted for fault in error.faults)
        return
    except UnknownFactError as error:
        assert "known: " in str(error)
        return
    assert model.total_bytes == sum(bytes_by_kind(model).values()) > 0


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=12), JUNK, max_size=5))
def test_pure_junk_is_refused(config):
    try:
        model_from_config("junk", config, source="test")
    except (ConfigurationError, UnknownFactError) as error:
        assert "architecture" in str(error)
    else:
        raise AssertionError("junk was understood")


@st.composite
def sized(draw):
    kv_heads = draw(st.integers(1, 4))
    heads = kv_heads * draw(st.integers(1, 4))
    experts = draw(st.integers(1, 6))
    layers = draw(st.integers(1, 5))
    common = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "num_hidden_layers": layers,
        "hidden_size": draw(st.integers(1, 600)),
        "vocab_size": draw(st.integers(1, 600)),
        "intermediate_size": draw(st.integers(1, 600)),
    }
    with_experts = {
        "n_routed_experts": experts,
        "num_experts_per_tok": draw(st.integers(1, experts)),
        "moe_intermediate_size": draw(st.integers(1, 300)),
        "first_k_dense_replace": draw(st.integers(0, layers)),
    }
    config = draw(st.sampled_from([SMALL_DENSE, SMALL_LATENT, SMALL_INT4]))
    return {**config, **common, **(with_experts if config is not SMALL_DENSE else {})}


@settings(max_examples=100, deadline=None)
@given(sized())
def test_bytes_add_up_over_kinds_rows_and_stored_parts(config):
    model = model_from_config("m", config, source="test")

    rows = quantisation_report(model)
    parts = sum(
        part.total_bytes * max(1, len(tensor.layers)) * (tensor.copies if "{expert}" in tensor.module else 1)
        for tensor in model.tensors
        for part in stored_parts(tensor)
    )
    assert model.total_bytes == parts
    assert model.total_bytes == sum(bytes_by_kind(model).values())
    assert model.total_bytes == sum(row.total_bytes for row in rows)


@settings(max_examples=100, deadline=None)
@given(sized(), st.dictionaries(st.text(max_size=8).map("x_{}".format), JUNK, max_size=4))
def test_parsing_then_printing_is_stable(config, noise):
    printed = deciding_keys({**noise, **config})

    assert deciding_keys(printed) == printed
    assert not printed.keys() & noise.keys()
    assert model_from_config("m", printed, source="test") == model_from_config("m", config, source="test")


def test_the_deciding_keys_of_real_models_decide_them():
    for name, config in EVERY.items():
        printed = deciding_keys(config)
        assert deciding_keys(printed) == printed
        assert model_from_config(name, printed, source="test") == model_from_config(name, config, source="test")

"""A user's own arguments: every fault is named before anything is deployed, and what passes vLLM accepts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.engine.command_line import GivenFlag, StrayValue, split_arguments
from serving.engine.extra_arguments import extra_argument_faults, given_flags, kv_offload_bytes
from serving.engine.flags import Flag, ValueCount, ValueKind, engine_flags, owned_flags, removed_flags
from serving.units import GIB
from tests.serving.engine.vllm_parser import RefusedError, facts, parsed


def said(*arguments: str) -> list[str]:
    return [str(fault) for fault in extra_argument_faults(arguments)]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--enable-log-requests",),
        ("--no-enable-prefix-caching", "--block-size", "64"),
        ("--seed=-1",),
        ("--max-logprobs", "-1"),
        ("--max-num-queued-tokens=8.5k", "--watermark=.05"),
        ("--cudagraph-capture-sizes", "1", "2", "4"),
        ("--middleware=a.B", "--middleware=c.D"),
        ("--load-format", "fastsafetensors"),
        ('--default-chat-template-kwargs={"thinking": false}',),
        ('--compilation-config={"cudagraph_mode": "FULL"}',),
        ("-cc.cudagraph_mode=FULL", "-cc.mode", "3"),
        ("-O3",),
        ("--enable_log_requests",),
        ("--kv-offloading-size=200",),
    ],
)
def test_what_vllm_accepts_passes(arguments: tuple[str, ...]) -> None:
    assert said(*arguments) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--enforce-eger",), "extraArgs[0]: got --enforce-eger; accepted: did you mean --enforce-eager?"),
        (("--seed=1", "--xyzzy"), "extraArgs[1]: got --xyzzy; accepted: the flags of vllm serve 0.32.0"),
        (("--swap-space", "4"), "accepted: --kv-offloading-size=GiB, which keeps KV cache in host memory"),
        (("--swap-space=4",), "(--swap-space was removed in vLLM 0.18.0)"),
        (("--disable-log-requests",), "nothing: requests are not logged unless --enable-log-requests asks for it"),
        (("--calculate-kv-scales",), "was removed from vLLM after 0.15.1)"),
        (("--task=generate",), "(--task is no longer in vLLM 0.32.0)"),
        (("--max-logprobs=five",), "got --max-logprobs=five; accepted: a whole number"),
        (("--watermark", "nan"), "got --watermark nan; accepted: a number"),
        (("--max-num-queued-tokens=8.5K",), "or with a suffix such as 8k (8,000) or 8K (8,192)"),
        (("--kv-offloading-backend=disk",), "accepted: lmcache, native"),
        (("--load-format=fastsafetensor",), "did you mean fastsafetensors? auto, dummy,"),
        (("--stream-interval",), "accepted: --stream-interval with a whole number"),
        (("--stream-interval", "--seed=1"), "extraArgs[0]: got --stream-interval;"),
        (("--enforce-eager=true",), "accepted: --enforce-eager to turn it on, --no-enforce-eager to turn it off"),
        (
            ("--enforce-eager", "true"),
            "extraArgs[1]: got true; accepted: nothing here: --enforce-eager takes no value, and --no-enforce-eager",
        ),
        (("fast",), "extraArgs[0]: got fast; accepted: a flag first"),
        (("",), "extraArgs[0]: got ''; accepted: a flag first"),
        (
            ("--block-size 64",),
            "the flag and its value as two entries, or one joined by an equals sign: --block-size=…",
        ),
        (("--seed=1", "--seed", "2"), "extraArgs[1]: got --seed 2; accepted: --seed once; it stands at extraArgs[0]"),
        (("--enforce-eager", "--no-enforce-eager"), "--enforce-eager once"),
        (("--compilation-config={bad",), "accepted: a JSON object (Expecting property name"),
        (("--compilation-config=3",), "accepted: a JSON object"),
        (('--compilation-config={"modes": 3}',), "did you mean mode? the keys of --compilation-config"),
        (("-cc.cudagraph_mod=FULL",), "did you mean cudagraph_mode?"),
        (("--seed.a=1",), "accepted: --seed with a whole number; it has no keys"),
        (("--chat-template=$(VLLM_API_KEY)",), "values without $(…), which Kubernetes would replace"),
        (("--middleware", "$(VLLM_API_KEY)"), "values without $(…)"),
        (("--kv-offloading-size=0",), "accepted: GiB of host memory, above 0"),
        (("-tp", "4"), "Dormouse lays the model out over the machine's GPUs"),
        (("--tensor_parallel_size=4",), "Dormouse lays the model out over the machine's GPUs"),
        (("--port=80",), "the gateway of the pod reaches vLLM there"),
        (("--max-model-len=8k",), "accepted: dormouse:contextTokens"),
        (("--no-trust-remote-code",), "the model's profile decides it"),
        (("--config=/models/flags.yaml",), "each flag here, where it is checked"),
        (("--speculative-config.model=x",), "the memory plan does not count a draft model"),
        (("--enable-sleep-mode",), "it makes vLLM measure its memory wrongly"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_do(arguments: tuple[str, ...], words: str) -> None:
    (fault,) = said(*arguments)
    assert words in fault


def test_all_faults_at_once_each_at_its_place() -> None:
    faults = extra_argument_faults(["--xyzzy", "--seed=a", "--port=1", "--enforce-eager"], "extra_args")
    assert [fault.key for fault in faults] == ["extra_args[0]", "extra_args[1]", "extra_args[2]"]


SECRET = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    "arguments",
    [
        (f"--api-key={SECRET}",),
        ("--api-key", SECRET),
        ("--api-key", SECRET, SECRET),
        ("--api_key", SECRET),
        (f"--api-key {SECRET}",),
        (f"--api-keys={SECRET}",),
        ("--api-keys", SECRET, SECRET),
        (f"--hf-token={SECRET}",),
        ("--hf-token", SECRET, SECRET),
    ],
)
def test_a_secret_is_refused_and_never_repeated(arguments: tuple[str, ...]) -> None:
    faults = said(*arguments)
    assert faults
    assert not any(SECRET in fault for fault in faults)


@pytest.mark.parametrize("name", sorted(owned_flags()))
def test_every_owned_flag_is_refused_in_every_spelling(name: str) -> None:
    for spelling, flag in engine_flags().spellings.items():
        if flag.name == name:
            (fault,) = extra_argument_faults([f"{spelling}=1"])
            assert fault.accepted == owned_flags()[name].instead


@pytest.mark.parametrize("name", sorted(removed_flags()))
def test_every_removed_flag_is_told_its_replacement(name: str) -> None:
    (fault,) = extra_argument_faults([name, "1"])
    assert fault.accepted.startswith(removed_flags()[name].instead)
    assert removed_flags()[name].gone in fault.accepted


def test_splitting_keeps_every_argument() -> None:
    found = split_arguments(["a", "--seed", "1", "--enforce-eager", "b", "--zz", "c", "-O2"], engine_flags())
    assert [(type(entry), entry.index) for entry in found] == [
        (StrayValue, 0),
        (GivenFlag, 1),
        (GivenFlag, 3),
        (StrayValue, 4),
        (GivenFlag, 5),
        (GivenFlag, 7),
    ]


def test_given_flags_and_host_memory() -> None:
    assert given_flags(["--no-enforce-eager", "-O2", "-cc.mode=3", "--zz"]) == {
        "--enforce-eager",
        "--optimization-level",
        "--compilation-config",
    }
    assert kv_offload_bytes(["--kv-offloading-size", "200"]) == 200 * GIB
    assert kv_offload_bytes(["--seed=1"]) == kv_offload_bytes(["--kv-offloading-size=-3"]) == 0
    assert kv_offload_bytes(["--kv-offloading-size"]) == kv_offload_bytes(["--kv-offloading-size=x"]) == 0


def values(flag: Flag) -> st.SearchStrategy[str]:
    some = st.sampled_from(["1", "-1", "0.5", "8k", "8.5K", "auto", "a", "nan", "1e3", "{}", "[1]", '{"a": 1}', "{"])
    return st.one_of(some, st.sampled_from(flag.choices)) if flag.choices else some


@st.composite
def own_arguments(draw: st.DrawFn) -> list[str]:
    arguments: list[str] = []
    for flag in draw(
        st.lists(st.sampled_from(sorted(engine_flags().flags.values(), key=lambda f: f.name)), max_size=4)
    ):
        spelling = draw(st.sampled_from([s for s, known in engine_flags().spellings.items() if known is flag]))
        count = draw(st.sampled_from([0, 1, 1, 1, 2]))
        given_values = [draw(values(flag)) for _ in range(count)]
        if count == 1 and draw(st.booleans()):
            arguments.append(f"{spelling}={given_values[0]}")
        else:
            arguments += [spelling, *given_values]
    return arguments


@given(arguments=own_arguments())
def test_what_passes_here_vllm_s_own_parser_reads(arguments: list[str]) -> None:
    facts("vllm_0_32_flags.json")
    if extra_argument_faults(arguments):
        return
    try:
        parsed(arguments)
    except RefusedError as refused:
        pytest.fail(f"{arguments}: {refused}")


@given(arguments=own_arguments())
def test_what_vllm_s_own_parser_refuses_is_refused_here(arguments: list[str]) -> None:
    facts("vllm_0_32_flags.json")
    try:
        parsed(arguments)
    except RefusedError:
        assert extra_argument_faults(arguments), arguments


@given(
    arguments=st.lists(st.one_of(st.text(max_size=12), st.from_regex(r"--?[a-zO_.-]{0,8}(=.{0,5})?", fullmatch=True)))
)
def test_nothing_that_is_typed_breaks_the_check(arguments: list[str]) -> None:
    for fault in extra_argument_faults(arguments):
        assert fault.accepted
        assert fault.value
        json.dumps(str(fault))
    given_flags(arguments)
    kv_offload_bytes(arguments)


def test_kinds_and_counts_are_all_tried_above() -> None:
    flags = engine_flags().flags.values()
    assert {flag.kind for flag in flags} == set(ValueKind)
    assert {flag.count for flag in flags} == set(ValueCount)

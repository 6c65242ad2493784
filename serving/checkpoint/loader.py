"""A model out of its `config.json`: the family decides which tensors there are, the quantisation how they lie."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serving.checkpoint.config import ConfigReader, read_json
from serving.checkpoint.families import KNOWN_ARCHITECTURES, TEXT_ARCHITECTURES, WITH_VISION
from serving.checkpoint.families.blueprint import PLAIN_STORAGES, Blueprint
from serving.checkpoint.families.parts import LAYER
from serving.checkpoint.families.vision import Vision, add_vision, read_vision
from serving.checkpoint.folder import matched_headers
from serving.checkpoint.index import matched_index, read_index, with_rotary_tables
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.quantisation import NOT_QUANTISED, quantisation_from
from serving.checkpoint.safetensors import StoredTensor, read_header, shards
from serving.checkpoint.weights import Kind, Storage, WeightTensor
from serving.errors import ConfigurationError, Fault, UnknownFactError

_TEXT_PREFIX = "language_model."


def model_from_config(
    name: str,
    config: Mapping[str, Any],
    *,
    source: str,
    rotary_table_bytes: int = 0,
    prediction_ends: bool = True,
) -> CheckpointModel:
    """The model called `name` that a Hugging Face `config` describes; `source` says where the config comes from.

    Two things no config tells, an index does:

    - `rotary_table_bytes`: bytes of a rotary table that some checkpoints store in each layer and no engine loads.
    - `prediction_ends`: whether a layer that predicts a further token repeats embedding and output head. DeepSeek's,
      GLM-4.5's and GLM-4.7's do, GLM-4.6's does not. None of it is loaded.

    Raises ConfigurationError with every fault of the config, UnknownFactError on an architecture or a quantisation
    method that is not known.
    """
    model = _read(name, config, source, prediction_ends)[0]
    return with_rotary_tables(model, rotary_table_bytes)


def deciding_keys(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of `config` that decides the model, without everything that `model_from_config` never looks at.

    Raises as `model_from_config` does.
    """
    return _read("model", config, "config")[1]


def model_from_files(config_path: str | Path, index_path: str | Path | None = None) -> CheckpointModel:
    """The model of a `config.json`, checked against a `model.safetensors.index.json` where one is given.

    Raises ConfigurationError where a file is unreadable, faulty or contradicts the other, UnknownFactError on an
    architecture or a quantisation method that is not known.
    """
    path = Path(config_path)
    config = read_json(path)
    name = path.resolve().parent.name or path.stem
    if index_path is None:
        return _read(name, config, str(path))[0]
    index = read_index(Path(index_path))
    model = _read(name, config, f"{path} and {index_path}")[0]
    return matched_index(model, index, f"{Path(index_path).name} of {name}")


def model_from_folder(folder: str | Path) -> CheckpointModel:
    """The model whose files lie in `folder`: bytes come from the safetensors headers, tensor by tensor.

    Raises ConfigurationError where a file is missing, cut off, a Git LFS pointer or contradicts the config,
    UnknownFactError on an architecture or a quantisation method that is not known.
    """
    path = Path(folder)
    config = read_json(path / "config.json")
    index_path = path / "model.safetensors.index.json"
    indexed: Mapping[str, str] = read_index(index_path).files if index_path.exists() else {}
    files = shards(path, tuple(indexed.values()))
    stored: dict[str, StoredTensor] = {}
    for file in files:
        stored |= read_header(file)
    if lost := sorted(indexed.keys() - stored.keys()):
        given = f"{len(lost):,} tensors that no file holds, such as {lost[0]}"
        raise ConfigurationError([Fault("weight_map", given, "an index of these very files")], str(index_path))
    source = f"{path}, headers of {len(files)} file{'s' if len(files) > 1 else ''}"
    model = _read(path.resolve().name, config, source)[0]
    return matched_headers(model, stored, str(path))


def _read(
    name: str, config: Mapping[str, Any], source: str, prediction_ends: bool = True
) -> tuple[CheckpointModel, Mapping[str, Any]]:
    reader = ConfigReader(config)
    where = f"the config of {name} ({source})"
    architecture = _architecture(reader, name, where)
    with_vision = architecture in WITH_VISION
    text = reader.section("text_config") if with_vision else reader
    text_architecture = _architecture(text, name, where) if with_vision else architecture
    facts, build = TEXT_ARCHITECTURES[text_architecture](text)
    vision = read_vision(reader.section("vision_config"), facts.sizes.hidden) if with_vision else None
    plain = _plain_storage(text)
    key = "quantization_config"
    quantised = (reader if reader.has(key) else text).section(key)
    quantisation = quantisation_from(quantised)
    reader.finish(where)

    blueprint = Blueprint(plain, quantisation, _TEXT_PREFIX if with_vision else "", prediction_ends)
    build(blueprint)
    if quantisation.kv_cache_scales:
        for side in ("k_scale", "v_scale"):
            module = f"{LAYER}.self_attn.{side}"
            blueprint.vector(module, Kind.ATTENTION, 1, layers=range(facts.sizes.layers))
    tensors = tuple(blueprint.tensors) + _vision_tensors(vision, plain)
    experts = facts.experts
    model = CheckpointModel(
        name=name,
        family=facts.family,
        architecture=architecture,
        quantisation=quantisation.words,
        layers=facts.sizes.layers,
        hidden=facts.sizes.hidden,
        heads=facts.sizes.heads,
        vocabulary=facts.sizes.vocabulary,
        max_context_tokens=facts.sizes.context,
        attention=facts.attention,
        tensors=tensors,
        source=source,
        experts=experts.count if experts else 0,
        experts_per_token=experts.per_token if experts else 0,
        expert_inner=experts.inner if experts else 0,
        tied_embedding=facts.sizes.tied,
    )
    return model, reader.decided


def _architecture(reader: ConfigReader, name: str, where: str) -> str:
    """The config's one architecture, where it is known."""
    given = reader.texts("architectures")
    known = KNOWN_ARCHITECTURES if not reader.path else tuple(TEXT_ARCHITECTURES)
    if len(given) != 1:
        reader.require(False, "architectures", f"a list of one name, of {', '.join(known)}")
        reader.finish(where)
    if given[0] not in known:
        raise UnknownFactError(
            f"model `{name}`: architecture `{given[0]}` is not known, and sizes are not guessed;"
            f" known: {', '.join(known)}"
        )
    return given[0]


def _plain_storage(text: ConfigReader) -> Storage:
    key = "dtype" if text.has("dtype") else "torch_dtype"
    word = text.text(key, default="bfloat16").removeprefix("torch.")
    text.require(word in PLAIN_STORAGES, key, " or ".join(PLAIN_STORAGES))
    return PLAIN_STORAGES.get(word, PLAIN_STORAGES["bfloat16"])


def _vision_tensors(vision: Vision | None, plain: Storage) -> tuple[WeightTensor, ...]:
    if vision is None:
        return ()
    blueprint = Blueprint(plain, NOT_QUANTISED)
    add_vision(blueprint, vision)
    return tuple(blueprint.tensors)

"""What a model is: one TOML file each under `serving/models/`, read whole and checked whole.

A file holds the deciding keys of the model's own `config.json` as they stand there; `load_checkpoint` makes tensors of
them. Models under `serving/models/testing/` are for tests: they load by name and are not listed.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, cast

from serving.checkpoint.loader import model_from_config
from serving.checkpoint.model import CheckpointModel
from serving.errors import UnknownFactError
from serving.profile_document import Section
from serving.published_tensors import Corrections, corrections_from

VISION_MODES = ("data", "weights", "none")


@dataclass(frozen=True)
class ModelFiles:
    """What of the repository is needed to serve the model, as glob patterns; everything else stays where it is."""

    weights: tuple[str, ...]
    index: tuple[str, ...]
    config: tuple[str, ...]
    tokenizer: tuple[str, ...]
    code: tuple[str, ...]
    chat_template: tuple[str, ...]

    @property
    def patterns(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.weights, *self.index, *self.config, *self.tokenizer, *self.code, *self.chat_template)


@dataclass(frozen=True)
class Sampling:
    """Sampling values that the model's maker documents for one `mode`; None where the maker says nothing."""

    mode: str
    source: str
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None

    @property
    def values(self) -> dict[str, float | int]:
        """The documented ones under vLLM's names, as `--override-generation-config` takes them."""
        given = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k, "min_p": self.min_p}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Constraint:
    """Something to know before the model is served: what it is about, what is so, and who says so."""

    topic: str
    says: str
    source: str


@dataclass(frozen=True)
class ModelProfile:
    """One model: where it comes from, what it weighs, how vLLM is to serve it.

    - `published_weights_bytes`: the checkpoint's published total, in bytes; `published_source`: who published it.
    - `config`: the deciding keys of config.json. `corrections`: where the files differ from what the config tells.
    - `vision_parameters`: BF16 parameters of the vision tower, 0 for a text model.
    - `tool_call_parser`, `reasoning_parser`: vLLM's names, empty where the model needs none.
    - `tokenizer_mode`: vLLM's `--tokenizer-mode`, `auto` unless the model needs another.
    - `vision_mode`: vLLM's `--mm-encoder-tp-mode`: `data` (a copy on every GPU) or `weights`; `none` for a text model.
    - `chat_template`: a template of vLLM's image that tool calls need, below its work folder; empty where the model's own
      does. `encodings`: files that its chat format reads at start and that its repository does not hold.
    - `sampling`: the maker's values, the default mode first; empty where the maker documents none.
    """

    name: str
    title: str
    repository: str
    revision: str
    licence: str
    source: str
    published_weights_bytes: int
    published_source: str
    files: ModelFiles
    vision_parameters: int
    served_name: str
    tool_call_parser: str
    reasoning_parser: str
    trust_remote_code: bool
    tokenizer_mode: str
    vision_mode: str
    chat_template: str
    encodings: tuple[str, ...]
    min_vllm_version: str
    serving_source: str
    sampling: tuple[Sampling, ...]
    constraints: tuple[Constraint, ...]
    config: Mapping[str, Any] = field(repr=False, hash=False)
    corrections: Corrections = field(repr=False)

    @property
    def max_context_tokens(self) -> int:
        """The longest context that the model was made for."""
        text = cast("Mapping[str, Any]", self.config.get("text_config", self.config))
        return text["max_position_embeddings"]

    @cached_property
    def checkpoint(self) -> CheckpointModel:
        """The tensors, attention and limits of the model, as its files have them."""
        return self.corrections.applied_to(model_from_config(self.name, self.config, source=self.source))


def known_models() -> tuple[str, ...]:
    """The names of every model in the data folder, sorted; those for tests are not among them."""
    return _names_in(_folder())


@cache
def load_model(name: str) -> ModelProfile:
    """The profile called `name`.

    Raises UnknownFactError listing the known models where there is none of that name.
    """
    for folder in (_folder(), _folder() / "testing"):
        if name in _names_in(folder):
            return parse_model(tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")))
    raise UnknownFactError(f"model `{name}` is not known; known: {', '.join(known_models())}")


def load_checkpoint(name: str) -> CheckpointModel:
    """The tensors, attention and limits of the model called `name`; raises UnknownFactError as `load_model` does."""
    return load_model(name).checkpoint


def parse_model(document: Mapping[str, Any]) -> ModelProfile:
    """A profile out of a parsed TOML document; raises UnknownFactError on a missing, wrong or unknown key."""
    top = Section(document, f"model `{document.get('name', '?')}`")
    published, serving, files = top.section("published"), top.section("serving"), top.section("files")
    vision = top.section("vision", optional=True)
    profile = ModelProfile(
        name=top.text("name"),
        title=top.text("title"),
        repository=top.text("repository"),
        revision=top.text("revision"),
        licence=top.text("licence"),
        source=top.text("source"),
        published_weights_bytes=published.integer("weights_bytes"),
        published_source=published.text("source"),
        files=ModelFiles(
            weights=files.texts("weights"),
            index=files.texts("index"),
            config=files.texts("config"),
            tokenizer=files.texts("tokenizer"),
            code=files.texts("code", optional=True),
            chat_template=files.texts("chat_template"),
        ),
        vision_parameters=vision.integer("parameters") if vision.given else 0,
        served_name=serving.text("served_name"),
        tool_call_parser=serving.text("tool_call_parser", empty=True),
        reasoning_parser=serving.text("reasoning_parser", empty=True),
        trust_remote_code=serving.flag("trust_remote_code"),
        tokenizer_mode=serving.text("tokenizer_mode", default="auto"),
        vision_mode=serving.one_of("vision_mode", VISION_MODES),
        chat_template=serving.text("chat_template", default="", empty=True),
        encodings=serving.texts("encodings", optional=True),
        min_vllm_version=serving.text("min_vllm_version"),
        serving_source=serving.text("source"),
        sampling=tuple(_sampling(entry) for entry in serving.sections("sampling")),
        constraints=tuple(_constraint(entry) for entry in top.sections("constraints")),
        config=top.mapping("config"),
        corrections=corrections_from(top.section("checkpoint", optional=True)),
    )
    # Counts of files and tensors stand there for people.
    for key in ("shards", "tensors"):
        published.integer(key, default=0)
    for section in (top, published, serving, files, vision):
        section.finish()
    return profile


def _sampling(entry: Section) -> Sampling:
    found = Sampling(
        mode=entry.text("mode"),
        source=entry.text("source"),
        temperature=entry.number("temperature"),
        top_p=entry.number("top_p"),
        top_k=entry.integer("top_k", default=0) or None,
        min_p=entry.number("min_p"),
    )
    entry.finish()
    return found


def _constraint(entry: Section) -> Constraint:
    found = Constraint(entry.text("topic"), entry.text("says"), entry.text("source"))
    entry.finish()
    return found


def _folder() -> Traversable:
    return resources.files("serving") / "models"


def _names_in(folder: Traversable) -> tuple[str, ...]:
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))

"""What the server serves, asked before it is loaded: the name, the longest request, where its tokenizer may be had."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from components.programs.smoke.client import Client, NoAnswer
from serving.errors import ConfigurationError, Fault, JobError
from serving.profiles import ModelProfile, known_models, load_model

_WHERE = "the command line"


@dataclass(frozen=True)
class Served:
    """One served model: `name` as callers send it, `context_tokens` (0 where it is not told), `root` as vLLM shows it."""

    name: str
    context_tokens: int
    root: str


def ask_served(client: Client, model: str | None) -> Served:
    """The model called `model`, or the first one.

    Raises ConfigurationError for a key or a name that the server does not take, JobError where it does not answer.
    """
    try:
        reply = client.get("/v1/models")
    except NoAnswer as error:
        raise JobError(f"/v1/models gives no answer: {error}") from error
    if reply.status in (401, 403):
        accepted = "the server's API key, in a file or in $DORMOUSE_API_KEY"
        raise ConfigurationError([Fault("--key-file", f"a key that is answered with {reply.status}", accepted)], _WHERE)
    listed = [cast("Mapping[str, Any]", one) for one in reply.document.get("data", [])]
    if reply.status != 200 or not listed:
        raise JobError(f"/v1/models answers {reply.status} and lists no model: is this an OpenAI-compatible server?")
    names = [str(one.get("id")) for one in listed]
    chosen = next((one for one in listed if model in (None, one.get("id"))), None)
    if chosen is None:
        raise ConfigurationError([Fault("--model", str(model), ", ".join(names))], _WHERE)
    return Served(str(chosen["id"]), int(chosen.get("max_model_len") or 0), str(chosen.get("root") or ""))


def tokenizer_of(served: Served, given: str | None) -> str:
    """Where the load generator finds the tokenizer: what is given, else a known model's repository, else vLLM's own folder.

    Raises ConfigurationError where none of them is there.
    """
    if given is not None:
        return given
    if (profile := _known(served.name)) is not None:
        return profile.repository
    if served.root and (Path(served.root) / "tokenizer_config.json").is_file():
        return served.root
    accepted = "a folder with the model's tokenizer files, or the repository that has them"
    raise ConfigurationError([Fault("--tokenizer", f"nothing, and {served.name} is no known model", accepted)], _WHERE)


def tokenizer_mode(served: Served) -> str:
    """The `--tokenizer-mode` of vLLM for the model: `auto` unless it is known to need another."""
    profile = _known(served.name)
    return "auto" if profile is None else profile.tokenizer_mode


def runs_own_code(served: Served, tokenizer: str) -> bool:
    """Whether the tokenizer is known to be Python of the model's own repository, which has to be allowed."""
    profile = _known(served.name)
    return profile is not None and tokenizer == profile.repository and bool(profile.files.code)


def _known(name: str) -> ModelProfile | None:
    """The profile that is served under that name."""
    for known in known_models():
        profile = load_model(known)
        if profile.served_name == name:
            return profile
    return None

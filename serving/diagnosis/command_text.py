"""A `vllm serve` command line in its parts, out of whatever text it was posted in."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serving.engine.command_line import GivenFlag, split_arguments
from serving.engine.flags import ValueKind, engine_flags
from serving.fit.layout import Layout

_LAYOUT_FLAGS = {
    "--tensor-parallel-size": "tensor_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "--data-parallel-size": "data_parallel",
    "--decode-context-parallel-size": "decode_context_parallel",
    "--nnodes": "nodes",
}


@dataclass(frozen=True)
class Command:
    """A command in its parts.

    - `words`: all of it. `serve`: the arguments of vLLM, the model first where it stands there.
    - `image`: the container image, or empty. `runner`: `docker`, `podman` or empty.
    """

    words: tuple[str, ...]
    serve: tuple[str, ...]
    image: str
    runner: str

    @property
    def flags(self) -> Mapping[str, GivenFlag]:
        """The flags that vLLM knows, by their full names; the last of each counts."""
        return {
            given.flag.name: given
            for given in split_arguments(self.serve, engine_flags())
            if isinstance(given, GivenFlag) and given.flag is not None
        }

    @property
    def model(self) -> str:
        """The model as it is named, or empty."""
        if self.serve and not self.serve[0].startswith("-"):
            return self.serve[0]
        given = self.flags.get("--model")
        return given.values[0] if given and given.values else ""


def read_command(text: str) -> Command | None:
    """The `vllm serve` command in a text of one or more lines, or None where there is none.

    Understands `vllm serve`, the old module entry, and `docker run IMAGE …` of vLLM's image.
    """
    joined = re.sub(r"\\\s*\n", " ", text)
    for line in joined.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        words = words[1:] if words[:1] == ["$"] else words
        start = _serve_start(words)
        if start is None:
            continue
        image = next((word for word in words[:start] if re.search(r"(?:^|/)vllm[\w-]*(?::|@|$)", word)), "")
        runner = next((word for word in words[:start] if word in ("docker", "podman", "nerdctl")), "")
        return Command(tuple(words), tuple(words[start:]), image if runner else "", runner)
    return None


def layout_of(command: Command) -> Layout | None:
    """The layout that a command asks for, or None where a size is no number."""
    sizes: dict[str, int] = {}
    for flag, name in _LAYOUT_FLAGS.items():
        given = command.flags.get(flag)
        if given is not None:
            if not given.values or not given.values[0].isdecimal() or int(given.values[0]) < 1:
                return None
            sizes[name] = int(given.values[0])
    return Layout(
        sizes.get("tensor_parallel", 1),
        pipeline_parallel=sizes.get("pipeline_parallel", 1),
        data_parallel=sizes.get("data_parallel", 1),
        decode_context_parallel=sizes.get("decode_context_parallel", 1),
        nodes=sizes.get("nodes", 1),
        expert_parallel=is_on(command, "--enable-expert-parallel"),
    )


def _serve_start(words: Sequence[str]) -> int | None:
    """Where vLLM's own arguments begin."""
    for index, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == "vllm" and words[index + 1 : index + 2] == ["serve"]:
            return index + 2
        if word == "vllm.entrypoints.openai.api_server":
            return index + 1
        if re.search(r"(?:^|/)vllm/vllm-openai(?:[:@]|$)", word) and "run" in words[:index]:
            return index + 1
    return None


def limit(command: Command, flag: str, default: int) -> int:
    """The whole number that `flag` is given, with vLLM's own suffixes, or `default`."""
    given = command.flags.get(flag)
    if given is None or not given.values:
        return default
    read = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", given.values[0])
    if read is None:
        return default
    factor = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}[read[2]]
    return int(float(read[1]) * factor)


def is_on(command: Command, flag: str) -> bool:
    """Whether a switch is turned on."""
    given = command.flags.get(flag)
    return (
        given is not None
        and given.flag is not None
        and given.flag.kind is ValueKind.SWITCH
        and (given.spelling != given.flag.negation)
    )

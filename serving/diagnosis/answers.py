"""Bad answers without an error: a request, an answer or a command held against what the model's maker documents."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from serving.diagnosis.advice import model_of
from serving.diagnosis.checks import found
from serving.diagnosis.command_text import Command
from serving.diagnosis.finding import Finding
from serving.profiles import ModelProfile

_MARKERS = (
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<tool_call>", "<think>", "</think>", "<|channel|>",
    "<｜tool▁calls▁begin｜>", "[TOOL_CALLS]",
)  # fmt: skip
_REPEATED = re.compile(r"(.{1,40}?)\1{19,}", re.DOTALL)
_TOLERANCE = 0.02
_EMPTY: Mapping[str, Any] = {}
_STRETCHING = ("--rope-scaling", "--rope-theta", "--hf-overrides")


def diagnose_exchange(document: Mapping[str, Any], profile: ModelProfile | None = None) -> tuple[Finding, ...]:
    """What is wrong in a request body, an answer, or an object with both as `request` and `response`.

    - `profile`: the model; None takes the one that the document names, where it is known.
    """
    request, response = _object(document, "request"), _object(document, "response")
    if not request and not response:
        request, response = (_EMPTY, document) if "choices" in document else (document, _EMPTY)
    model = profile or model_of({"model": request.get("model") or response.get("model") or ""})
    findings = [*(_sampling(request, model) if model is not None else ()), *_answer(response, model)]
    return tuple(findings)


def diagnose_answers_command(command: Command) -> tuple[Finding, ...]:
    """What in a server's command line makes answers worse than the model's own."""
    model = model_of({"model": command.model})
    return tuple(_server(command, model))


def _sampling(request: Mapping[str, Any], model: ModelProfile) -> Iterator[Finding]:
    kwargs = _object(request, "chat_template_kwargs")
    instant = kwargs.get("thinking") is False or kwargs.get("enable_thinking") is False
    wanted_mode = "instant" if instant else ""
    documented = [one for one in model.sampling if one.values]
    if not documented:
        return
    mode = next((one for one in documented if one.mode == wanted_mode), documented[0])
    for name, wanted in mode.values.items():
        given = request.get(name)
        if isinstance(given, (int, float)) and not isinstance(given, bool) and abs(given - wanted) > _TOLERANCE:
            if any(abs(given - one.values.get(name, wanted)) <= _TOLERANCE for one in documented if not wanted_mode):
                continue
            yield found(
                "answers-sampling",
                f"request.{name}",
                str(given),
                name=name,
                given=given,
                maker=model.repository.partition("/")[0],
                wanted=wanted,
                title=model.title,
                mode=mode.mode,
            )


def _answer(response: Mapping[str, Any], model: ModelProfile | None) -> Iterator[Finding]:
    choices = response.get("choices")
    usage = _object(response, "usage")
    for index, raw in enumerate(cast("list[object]", choices) if isinstance(choices, list) else []):
        choice = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else _EMPTY
        message = _object(choice, "message")
        content = str(message.get("content") or choice.get("text") or "")
        reasoning = str(message.get("reasoning") or message.get("reasoning_content") or "")
        place = f"response.choices[{index}]"
        marker = next((one for one in _MARKERS if one in content), None)
        if marker is not None:
            yield found(
                "answers-parser", f"{place}.message.content", marker, marker=marker, wanted=_parser_flags(model)
            )
        if (repeated := _REPEATED.search(content)) is not None:
            yield found("answers-repetition", f"{place}.message.content", content[:80], sample=repr(repeated[1][:20]))
        if choice.get("finish_reason") == "length":
            tokens = usage.get("completion_tokens", "all its")
            yield found("answers-cut", f"{place}.finish_reason", "length", tokens=tokens)
        if reasoning and not content and not message.get("tool_calls"):
            yield found("answers-empty", f"{place}.message", "content is empty", length=len(reasoning))


def _server(command: Command, model: ModelProfile | None) -> Iterator[Finding]:
    flags = command.flags
    dtype = flags.get("--kv-cache-dtype")
    if dtype is not None and dtype.values[:1] and dtype.values[0].startswith("fp8"):
        title = model.title if model is not None else "the checkpoint, as most do,"
        yield found("answers-kv-dtype", dtype.spelling, dtype.values[0], given=dtype.values[0], title=title)
    template = flags.get("--chat-template")
    if template is not None and template.values:
        yield found("answers-template", template.spelling, template.values[0], given=template.values[0])
    for name in _STRETCHING:
        given = flags.get(name)
        text = " ".join(given.values) if given is not None else ""
        if given is not None and (name != "--hf-overrides" or "rope" in text or "max_position" in text):
            yield found("answers-rope", name, text, given=f"{name} {text}".strip())
    if model is not None and "/" in command.model and command.model.lower() != model.repository.lower():
        if command.model.startswith(("/", "./")):
            return
        yield found(
            "answers-requantised", "the model", command.model,
            model=command.model, repository=model.repository, method=model.checkpoint.quantisation,
        )  # fmt: skip


def _parser_flags(model: ModelProfile | None) -> str:
    if model is None or not model.tool_call_parser:
        return "the model's own --tool-call-parser and --reasoning-parser"
    reasoning = f" --reasoning-parser {model.reasoning_parser}" if model.reasoning_parser else ""
    return f"--enable-auto-tool-choice --tool-call-parser {model.tool_call_parser}{reasoning}"


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parent.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return _EMPTY
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else _EMPTY

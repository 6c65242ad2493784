"""What is checked, one function each; a check that cannot be made says why and counts as skipped."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from components.programs.smoke.client import NoAnswer
from components.programs.smoke.long_prompts import long_prompt, needle, too_long
from components.programs.smoke.target import CheckFailed, CheckSkipped, Outcome, Result, Target, answer, short

# What vLLM serves without a key on its own port; none of it may be reached from outside.
KEYLESS_PATHS = ("/invocations", "/metrics", "/tokenize", "/docs", "/openapi.json", "/version", "/load")
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_SLOT_FREE_S = 20.0


def health(target: Target) -> str:
    """It says that it is well, without a key."""
    reply = target.client.get("/health", key="")
    if reply.status != 200:
        raise CheckFailed(f"/health answers {reply.status}: {short(reply.text)}")
    return "/health answers 200"


def models(target: Target) -> str:
    """It lists the model under the name that callers send."""
    reply = target.client.get("/v1/models")
    listed = [cast("Mapping[str, Any]", one) for one in reply.document.get("data", [])]
    names = [str(one.get("id")) for one in listed]
    if reply.status != 200 or not names:
        raise CheckFailed(f"/v1/models answers {reply.status}: {short(reply.text)}")
    if target.model is not None and target.model not in names:
        raise CheckFailed(f"{target.model} is not listed; listed: {', '.join(names)}")
    target.model = target.model or names[0]
    served = next(one for one in listed if one.get("id") == target.model)
    target.context_tokens = int(served.get("max_model_len") or 0)
    return f"lists {target.model}, context {target.context_tokens:,} tokens"


def wrong_key(target: Target) -> str:
    """Without a key and with a wrong one nobody gets in."""
    for key, words in (("", "no key"), ("sk-wrong-key-of-a-stranger", "a wrong key")):
        for reply in (
            target.client.get("/v1/models", key=key),
            target.client.post("/v1/chat/completions", {}, key=key),
        ):
            if reply.status != 401:
                raise CheckFailed(f"{words} is answered with {reply.status} instead of 401")
    return "401 without a key and with a wrong one"


def chat(target: Target) -> str:
    """It answers, and counts tokens that add up."""
    message, choice, usage = answer(target, target.chat("Say hello in one short sentence.", temperature=0))
    if not (message.get("content") or "").strip():
        raise CheckFailed(f"an empty answer, finish reason {choice.get('finish_reason')}")
    prompt, completion, total = (int(usage.get(f"{name}_tokens") or 0) for name in ("prompt", "completion", "total"))
    if min(prompt, completion) < 1 or prompt + completion != total:
        raise CheckFailed(f"usage does not add up: {prompt} + {completion} = {total}")
    return f"answers {short(str(message['content']), 60)!r}, {prompt} + {completion} tokens"


def reasoning(target: Target) -> str:
    """Thinking comes in its own field and not in the answer."""
    if not target.reasoning:
        raise CheckSkipped("the model is not expected to think")
    message, _, _ = answer(target, target.chat("What is 17 times 3? Think first.", temperature=0))
    thought = str(message.get("reasoning") or message.get("reasoning_content") or "")
    if not thought.strip():
        raise CheckFailed("no reasoning field; is --reasoning-parser set?")
    if "<think>" in str(message.get("content")) or "</think>" in str(message.get("content")):
        raise CheckFailed("the answer still holds think markers: the parser does not fit the model")
    return f"reasons {len(thought)} characters apart from the answer"


def streaming(target: Target) -> str:
    """A stream comes in parts, tells its usage and ends properly."""
    body = target.chat("Count from one to five.", temperature=0, stream=True, stream_options={"include_usage": True})
    parts, ended, usage = 0, False, False
    began_s = time.monotonic()
    first_s = 0.0
    for event in target.client.stream("/v1/chat/completions", body):
        if event is None:
            ended = True
            continue
        if "error" in event:
            raise CheckFailed(f"an error in the stream: {short(json.dumps(event['error']))}")
        usage = usage or bool(event.get("usage"))
        for one in cast("list[Mapping[str, Any]]", event.get("choices") or []):
            delta = cast("Mapping[str, Any]", one.get("delta") or {})
            if delta.get("content") or delta.get("reasoning") or delta.get("reasoning_content"):
                parts += 1
                first_s = first_s or time.monotonic() - began_s
    if parts < 2 or not ended or not usage:
        faults = [
            *([] if parts > 1 else [f"{parts} part(s)"]),
            *([] if ended else ["no [DONE]"]),
            *([] if usage else ["no usage"]),
        ]
        raise CheckFailed(f"the stream has {', '.join(faults)}; does something in between buffer it?")
    return f"{parts} parts, the first after {first_s:.2f} s, then [DONE]"


def tool_call(target: Target) -> str:
    """It calls a tool with arguments that are JSON, takes the result and answers."""
    if not target.tools:
        raise CheckSkipped("the model is not expected to call tools")
    body = target.chat("What is the weather in Paris? Use the tool.", tools=[_TOOL], tool_choice="auto", temperature=0)
    message, choice, _ = answer(target, body)
    calls = cast("list[Mapping[str, Any]]", message.get("tool_calls") or [])
    if not calls:
        text = short(str(message.get("content")))
        raise CheckFailed(
            f"no tool call, finish reason {choice.get('finish_reason')}, text {text!r}; is the parser right?"
        )
    function = cast("Mapping[str, Any]", calls[0].get("function") or {})
    try:
        arguments: object = json.loads(str(function.get("arguments")))
    except ValueError as error:
        raise CheckFailed(f"the arguments are no JSON: {short(str(function.get('arguments')))}") from error
    if function.get("name") != "get_weather" or not isinstance(arguments, dict):
        raise CheckFailed(f"called {function.get('name')} with {short(str(arguments))}")
    result = {"role": "tool", "tool_call_id": calls[0].get("id"), "content": '{"degrees": 21, "sky": "clear"}'}
    turns = [*cast("list[Any]", body["messages"]), {"role": "assistant", "content": None, "tool_calls": calls}, result]
    second, _, _ = answer(target, {**body, "messages": turns})
    if not second.get("content") and not second.get("tool_calls"):
        raise CheckFailed("the second turn, with the tool's result, is empty")
    return f"get_weather({json.dumps(arguments)}), and an answer to its result"


def unknown_model(target: Target) -> str:
    """Another name is told apart from ours."""
    reply = target.client.post("/v1/chat/completions", {**target.chat("hi"), "model": "no-such-model"})
    if reply.status != 404:
        raise CheckFailed(f"an unknown model is answered with {reply.status} instead of 404: {short(reply.text)}")
    return "404 for another name"


def keyless_paths(target: Target) -> str:
    """What vLLM serves without a key is not reached from here."""
    open_paths: list[str] = []
    for path in KEYLESS_PATHS:
        asked = target.client.post if path in ("/invocations", "/tokenize") else None
        reply = asked(path, target.chat("hi", max_tokens=1), key="") if asked else target.client.get(path, key="")
        if reply.status not in (401, 403, 404):
            open_paths.append(f"{path} ({reply.status})")
    if open_paths:
        raise CheckFailed(f"reached without a key: {', '.join(open_paths)}; is the gateway in front?")
    return f"{len(KEYLESS_PATHS)} keyless paths are closed"


def cancellation(target: Target) -> str:
    """A caller who hangs up frees the place."""
    if target.metrics is None:
        raise CheckSkipped("vLLM's metrics cannot be reached from here; give --metrics-url")
    before = _running(target.metrics())
    body = target.chat("Write a very long story.", stream=True, max_tokens=target.answer_tokens, ignore_eos=True)
    stream = target.client.stream("/v1/chat/completions", body)
    next(iter(stream))
    while_running = _running(target.metrics())
    cast("Any", stream).close()
    end_s = time.monotonic() + _SLOT_FREE_S
    while (now := _running(target.metrics())) > before:
        if time.monotonic() > end_s:
            raise CheckFailed(f"{now} requests still run {_SLOT_FREE_S:.0f} s after the caller hung up")
        time.sleep(0.2)
    return f"{while_running} ran, {now} after the caller hung up"


CHECKS: tuple[Callable[[Target], str], ...] = (
    health, models, wrong_key, chat, reasoning, streaming, tool_call, long_prompt, needle, too_long, unknown_model,
    keyless_paths, cancellation,
)  # fmt: skip


def run_checks(target: Target, skip: frozenset[str] = frozenset()) -> Iterator[Result]:
    """Make every check in order and give each result as it is there; a server that is away fails them all the same."""
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        if name in skip:
            yield Result(name, "skipped", "left out on request", 0.0)
            continue
        began_s = time.monotonic()
        outcome: Outcome = "ok"
        try:
            detail = check(target)
        except CheckSkipped as error:
            outcome, detail = "skipped", str(error)
        except (CheckFailed, NoAnswer) as error:
            outcome, detail = "failed", str(error)
        except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
            outcome, detail = "failed", f"an answer of another shape than expected ({type(error).__name__}: {error})"
        yield Result(name, outcome, detail, time.monotonic() - began_s)


def _running(page: str) -> int:
    total = 0.0
    for line in page.splitlines():
        if line.startswith("vllm:num_requests_running"):
            total += float(line.rsplit(" ", 1)[-1])
    return round(total)

"""Checks of long prompts: read to the end, a word found in the middle, too long refused."""

from collections.abc import Mapping
from typing import Any, cast

from components.programs.smoke.target import CheckFailed, CheckSkipped, Target, answer, short

NEEDLE = "juniper-4711"
_FILLER = "The quick brown fox jumps over the lazy dog near the river bank. "


def long_prompt(target: Target) -> str:
    """A prompt near the limit is read to its end."""
    tokens = _long_tokens(target)
    reply = target.client.post(
        "/v1/chat/completions", target.chat(_haystack(target, tokens), max_tokens=256, temperature=0)
    )
    prompt = int(cast("Mapping[str, Any]", reply.document.get("usage") or {}).get("prompt_tokens") or 0)
    if reply.status != 200:
        raise CheckFailed(f"a prompt of about {tokens:,} tokens is answered with {reply.status}: {short(reply.text)}")
    if prompt < tokens // 2:
        raise CheckFailed(f"only {prompt:,} of about {tokens:,} tokens were read: is the prompt truncated?")
    return f"{prompt:,} of {target.context_tokens:,} tokens read"


def needle(target: Target) -> str:
    """A word in the middle of a long prompt is found again."""
    tokens = _long_tokens(target)
    message, _, _ = answer(target, target.chat(_haystack(target, tokens), max_tokens=256, temperature=0))
    said = f"{message.get('content')} {message.get('reasoning')} {message.get('reasoning_content')}"
    if NEEDLE not in said:
        raise CheckFailed(f"the word from the middle was not repeated: {short(said)}")
    return f"found the word from the middle of about {tokens:,} tokens"


def too_long(target: Target) -> str:
    """A prompt above the limit is refused, and not cut."""
    if not target.context_tokens:
        raise CheckSkipped("/v1/models tells no context length")
    words = _FILLER * int(2 * target.context_tokens * target.characters_per_token / len(_FILLER))
    reply = target.client.post("/v1/chat/completions", target.chat(words, max_tokens=1))
    if reply.status != 400:
        raise CheckFailed(f"twice the context is answered with {reply.status} instead of 400")
    return "400 for twice the context length"


def _long_tokens(target: Target) -> int:
    """How long the long prompt is to be, and how many characters a token has for this model."""
    if not target.context_tokens:
        raise CheckSkipped("/v1/models tells no context length")
    sample = _FILLER * 20
    _, _, usage = answer(target, target.chat(sample, max_tokens=1))
    counted = int(usage.get("prompt_tokens") or 0)
    target.characters_per_token = len(sample) / counted if counted else 4.0
    room = int(0.9 * target.context_tokens) - 512
    return max(64, room if target.long_tokens is None else min(room, target.long_tokens))


def _haystack(target: Target, tokens: int) -> str:
    lines = max(2, int(tokens * target.characters_per_token / len(_FILLER)))
    hay = [_FILLER] * lines
    hay[lines // 2] = f"The secret word is {NEEDLE}. "
    return "".join(hay) + "\nWhat is the secret word? Repeat it."

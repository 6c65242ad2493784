"""The ranking of `dormouse choose` in words."""

from infra.choice import Choice, Offer
from infra.fit_nearest import on_other_machines, with_shared_tokens, with_the_most_requests
from infra.fit_text import table
from infra.machine_prices import usd_text
from serving.units import gb_text

_SHOWN = 12


def choice_lines(choice: Choice) -> list[str]:
    """The ranking, the estimates in it, and the engine."""
    question = choice.question
    budget = "" if choice.budget_usd_per_hour is None else f", at most {usd_text(choice.budget_usd_per_hour)} an hour"
    lines = [
        (
            f"{question.title} ({gb_text(question.model.total_bytes)}), {question.concurrency:,} at once with"
            f" {question.limits.context_tokens:,} tokens each, KV cache {question.limits.kv_cache_dtype}{budget}"
        )
    ]
    if choice.offers:
        head = (
            "",
            "machine",
            "bought",
            "layout",
            "KV tokens",
            "holds",
            "tokens/s",
            "$/hour",
            "$/M tokens",
            "estimates",
        )
        shown = choice.offers[:_SHOWN]
        words = sorted({text for offer in shown for text in offer.estimates})
        body = [_cells(rank, offer, words, question.concurrency) for rank, offer in enumerate(shown, 1)]
        lines += ["", *table([head, *body], right=(0, 4, 5, 6, 7, 8))]
        if len(choice.offers) > _SHOWN:
            lines.append(f"… and {len(choice.offers) - _SHOWN} more (--json lists all)")
        lines += ["", *_speed_words(choice)]
        if words:
            lines += ["", "Estimates in a row:", *(f"  {_letter(words, text)}  {text}" for text in words)]
    if choice.beyond_budget and choice.budget_usd_per_hour is not None:
        lines += ["", f"Beyond the budget or without a published price: {len(choice.beyond_budget)} more."]
    deployed = "" if choice.advice.vllm else " What Dormouse deploys is vLLM."
    lines += ["", f"Engine: {choice.advice.engine}, because {choice.advice.reason}.{deployed}"]
    return lines


def refusal(choice: Choice) -> str:
    """Why nothing is offered, and the nearest thing that works."""
    question = choice.question
    what = (
        f"nothing holds {question.concurrency:,} request{'' if question.concurrency == 1 else 's'} of {question.limits.context_tokens:,} tokens of"
        f" {question.title}"
    )
    if not choice.beyond_budget:
        known = ", ".join(shape.name for shape in question.machines) or "hardware without such GPUs"
        works = on_other_machines(question, question.machines[0] if question.machines else None)
        works += with_shared_tokens(question)
        most, where = with_the_most_requests(question)
        if most and not works:
            works = [f"{most:,} at once on {where}, the most that one replica holds"]
        instead = "; ".join(works) or "fewer callers, a shorter context or --kv-cache-dtype fp8"
        return f"{what} in GPU memory on {known}. What works: {instead}"
    nearest = choice.beyond_budget[0]
    price = "no published price" if nearest.usd_per_hour is None else f"{usd_text(nearest.usd_per_hour)} an hour"
    return (
        f"{what} for {usd_text(choice.budget_usd_per_hour)} an hour; the cheapest that does is"
        f" {nearest.row.machine_text} ({nearest.purchase}, {nearest.row.layout_text}): {price}"
    )


def _cells(rank: int, offer: Offer, words: list[str], requests: int) -> tuple[str, ...]:
    rate, dollars = offer.decode_tokens_per_s(requests), offer.usd_per_million_tokens(requests)
    return (
        f"{rank}.",
        offer.row.machine_text,
        offer.purchase if offer.price is None else f"{offer.purchase}, {_where(offer.price.region)}",
        offer.row.layout_text,
        f"{offer.row.kv_cache_tokens:,}",
        f"{offer.row.requests:.1f}",
        "unknown" if rate is None else f"~{rate.value:,.0f}",
        usd_text(offer.usd_per_hour),
        "unknown" if dollars is None else f"~${dollars.value:,.2f}",
        " ".join(sorted(_letter(words, text) for text in offer.estimates)),
    )


def _speed_words(choice: Choice) -> list[str]:
    """How far the estimated speed may be off."""
    requests = choice.question.concurrency
    rate = next((found for offer in choice.offers if (found := offer.decode_tokens_per_s(requests))), None)
    if rate is None:
        return ["The speed of these GPUs is not known."]
    low, high = rate.low / rate.value, rate.high / rate.value
    return [
        (
            f"tokens/s is an estimate for {requests:,} at once, each at half of its context: speeds were seen from {low:.1f} to"
            f" {high:.1f} times it. $/M tokens follows from it."
        )
    ]


def _where(region: str) -> str:
    return "any region" if region == "*" else region


def _letter(words: list[str], text: str) -> str:
    return chr(ord("a") + words.index(text))

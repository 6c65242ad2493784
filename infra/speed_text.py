"""The estimated speed of a plan and what a million tokens would cost, in words and as JSON; always called an estimate."""

from typing import TYPE_CHECKING, Any

from serving.fit.plan import FitPlan
from serving.profiles import ModelProfile
from serving.service_plan import ServicePlan
from serving.speed import Estimate, SpeedModel, speed_model, usd_per_million_tokens

if TYPE_CHECKING:
    # Imported for its type alone: the fit answers before the program's libraries are loaded.
    from infra.cost_plan import CostPlan

_PROMPT_TOKENS = 8_000
_TOKENS_EACH = 4_000
_MOST_AT_ONCE = (1, 16, 64)


def speed_of(fit: FitPlan, profile: ModelProfile) -> SpeedModel | None:
    """The speed of a plan; None for a GPU whose bandwidth nobody noted."""
    return speed_model(profile.checkpoint, fit.layout, fit.shape, fit.limits)


def band_text(estimate: Estimate, digits: int = 0, unit: str = "") -> str:
    """Such as `3,000 (1,200 to 7,200)`."""
    low, high = sorted((estimate.low, estimate.high))
    return f"{unit}{estimate.value:,.{digits}f} ({unit}{low:,.{digits}f} to {unit}{high:,.{digits}f})"


def speed_lines(profile: ModelProfile, service: ServicePlan, cost: "CostPlan") -> list[str]:
    """Tokens a second and the time to a first token, with dollars per million tokens where the price is known."""
    model = speed_of(service.memory.fit, profile)
    if model is None:
        return []
    lines = [f"Speed, an estimate with a wide band ({_TOKENS_EACH:,} tokens each so far):"]
    price = _cheapest(cost)
    for requests in _at_once(service):
        rate = model.decode_tokens_per_s(requests, _TOKENS_EACH)
        dollars = ""
        if price is not None:
            dollars = f"; {band_text(usd_per_million_tokens(price, rate), 2, '$')} a million tokens"
        lines.append(f"  {requests} at once: {band_text(rate)} tokens a second{dollars}")
    first = model.first_token_s(_PROMPT_TOKENS)
    lines.append(f"  a prompt of {_PROMPT_TOKENS:,} tokens: {band_text(first, 2)} s to the first token")
    return lines


def speed_mapping(profile: ModelProfile, service: ServicePlan, cost: "CostPlan") -> dict[str, Any] | None:
    """The same as plain JSON."""
    model = speed_of(service.memory.fit, profile)
    if model is None:
        return None
    price = _cheapest(cost)
    rates = {requests: model.decode_tokens_per_s(requests, _TOKENS_EACH) for requests in _at_once(service)}
    return {
        "isEstimate": True,
        "tokensEach": _TOKENS_EACH,
        "decode": [
            {
                "requests": requests,
                "tokensPerSecond": estimate_mapping(rate),
                "usdPerMillionTokens": None if price is None else estimate_mapping(usd_per_million_tokens(price, rate)),
            }
            for requests, rate in rates.items()
        ],
        "promptTokens": _PROMPT_TOKENS,
        "firstTokenSeconds": estimate_mapping(model.first_token_s(_PROMPT_TOKENS)),
    }


def estimate_mapping(estimate: Estimate) -> dict[str, float]:
    """An estimate as plain JSON, the lower bound first."""
    low, high = sorted((estimate.low, estimate.high))
    return {"value": round(estimate.value, 3), "low": round(low, 3), "high": round(high, 3)}


def _at_once(service: ServicePlan) -> list[int]:
    most = service.memory.limits.max_sequences
    return sorted({min(requests, most) for requests in _MOST_AT_ONCE})


def _cheapest(cost: "CostPlan") -> float | None:
    known = [machine.usd_per_hour for machine in cost.machines if machine.usd_per_hour is not None]
    return min(known, default=None)

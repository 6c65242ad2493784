"""What to buy for a model: machine × purchase × layout, cheapest first, and which engine is right for it."""

from dataclasses import dataclass, replace

from infra.engine_advice import EngineAdvice, Hardware, advise
from infra.fit_nearest import with_the_most_requests
from infra.fit_question import MOST_NODES, FitQuestion
from infra.fit_rows import FitRow, serving_rows
from infra.machine_prices import MachinePrice, machine_prices
from serving.checkpoint.model import CheckpointModel
from serving.speed import Estimate, speed_model, usd_per_million_tokens

_UNTRIED_NODES = "vLLM over several machines was planned from its rules, not measured"


@dataclass(frozen=True)
class Offer:
    """One way to serve the model: a layout on a machine, and how the machine is bought.

    - `price`: None where nobody publishes one; such offers come last.
    - `estimates`: which of its figures are no measurements and no list prices, in words.
    """

    model: CheckpointModel
    row: FitRow
    purchase: str
    price: MachinePrice | None
    estimates: tuple[str, ...]

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour for all machines together, or None."""
        return None if self.price is None else self.price.usd_per_hour * self.row.layout.nodes

    def decode_tokens_per_s(self, requests: int) -> Estimate | None:
        """Tokens a second with `requests` at once, each at half of the context; None for a GPU of unknown bandwidth."""
        plan = self.row.plan
        speed = speed_model(self.model, self.row.layout, self.row.shape, plan.limits)
        return None if speed is None else speed.decode_tokens_per_s(requests, max(1, plan.limits.context_tokens // 2))

    def usd_per_million_tokens(self, requests: int) -> Estimate | None:
        """Dollars for a million answered tokens while `requests` run at once; None without a price or a speed."""
        rate = self.decode_tokens_per_s(requests)
        return None if rate is None or self.usd_per_hour is None else usd_per_million_tokens(self.usd_per_hour, rate)


@dataclass(frozen=True)
class Choice:
    """The ranking: offers that hold the concurrency within the budget, and the engine."""

    question: FitQuestion
    offers: tuple[Offer, ...]
    beyond_budget: tuple[Offer, ...]
    advice: EngineAdvice
    budget_usd_per_hour: float | None


def choose(question: FitQuestion, budget_usd_per_hour: float | None, hardware: Hardware | None) -> Choice:
    """Rank every way that holds what was asked; the budget counts all machines of the replica together.

    With `hardware` only that is looked at, and the engine is advised for it.
    """
    if hardware is None:
        # A box without a price is nothing to buy.
        machines = tuple(shape for shape in question.machines if shape.zone_ids)
    else:
        machines = () if hardware.shape is None else (hardware.shape,)
    question = replace(question, machines=machines)
    offers: list[Offer] = []
    for shape in question.machines:
        for nodes in range(1, MOST_NODES + 1):
            # A box that somebody has is one box.
            if nodes > 1 and not shape.zone_ids:
                break
            asked = replace(question, machines=(shape,), wish=replace(question.wish, nodes=nodes))
            rows = serving_rows(asked)
            offers += [offer for row in rows for offer in _bought(question, row)]
            if rows:
                break
    ranked = sorted(offers, key=_rank)
    within = tuple(one for one in ranked if _affordable(one, budget_usd_per_hour))
    beyond = tuple(one for one in ranked if not _affordable(one, budget_usd_per_hour))
    if hardware is None:
        advice = EngineAdvice(
            "vLLM" if ranked else "none",
            f"{question.title} lies in GPU memory as a whole on each of these, and there vLLM answers many callers at once"
            if ranked
            else f"{question.title} at this context and concurrency fits on no machine that is known",
            vllm=bool(ranked),
        )
    else:
        held = question.concurrency if ranked else with_the_most_requests(question)[0]
        advice = advise(question.model, question.title, hardware, held=held, concurrency=question.concurrency)
    return Choice(question, within, beyond, advice, budget_usd_per_hour)


def _bought(question: FitQuestion, row: FitRow) -> list[Offer]:
    common: list[str] = []
    if row.shape.usable_is_estimate:
        common.append("usable GPU memory")
    if row.layout.nodes > 1:
        common.append(_UNTRIED_NODES)
    if row.shape.gpu != "H200":
        common.append("activations, graphs and runtime, which were measured on an H200")
    offers = [
        Offer(question.model, row, price.purchase, price, (*common, *_price_estimates(price)))
        for price in machine_prices(row.shape.name, question.region)
    ]
    return offers or [Offer(question.model, row, "not priced", None, tuple(common))]


def _price_estimates(price: MachinePrice) -> tuple[str, ...]:
    if price.price.confidence == "high" and price.purchase == "on-demand":
        return ()
    moving = "" if price.purchase == "on-demand" else ", which moves"
    return (f"the {price.purchase} price of {price.price.as_of.isoformat()}{moving}",)


def _affordable(offer: Offer, budget_usd_per_hour: float | None) -> bool:
    if budget_usd_per_hour is None:
        return True
    return offer.usd_per_hour is not None and offer.usd_per_hour <= budget_usd_per_hour


def _rank(offer: Offer) -> tuple[bool, float]:
    """Known prices first, the lowest first; at one price the plainer layout, which comes first already."""
    return offer.usd_per_hour is None, offer.usd_per_hour or 0.0

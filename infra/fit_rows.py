"""One row for each machine: the planner's answer with its price, its verdict and what would work instead."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.fit_layouts import layouts_for, wished_layout
from infra.fit_nearest import on_other_machines, on_the_machine
from infra.fit_parts import BESIDE_GROUPS, WEIGHT_GROUPS, Part, parts_of
from infra.fit_question import FitQuestion
from infra.machine_prices import MachinePrice, dependable_price, machine_prices, usd_text
from serving.accelerators import InstanceShape, instance_shapes_as_of
from serving.fit.layout import Layout
from serving.fit.plan import FitPlan, plan_fit
from serving.units import GIB, gib_text

# How much more a second layout must hold to be worth a line of its own.
_ROOMIER = 1.1
_NOTHING = "nothing that is known; a smaller model or a shorter context is needed"


@dataclass(frozen=True)
class FitRow:
    """A layout on a machine: what fills its fullest GPU, what is left for requests, what it costs.

    - `missing_bytes`: on each GPU, for everything that was asked. `parts`: on a GPU of the tightest stage.
    - `prices`: by every way to buy that has one. `price`: of one that stays. `nearest`: what works instead.
    """

    shape: InstanceShape
    layout: Layout
    plan: FitPlan
    parts: tuple[Part, ...]
    missing_bytes: int
    prices: tuple[MachinePrice, ...]
    price: MachinePrice | None
    nearest: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """Reasons against the layout itself, whatever the memory."""
        return self.plan.faults

    @property
    def serves(self) -> bool:
        """Whether what was asked fits and nothing stands against the layout."""
        return not self.faults and self.missing_bytes == 0

    @property
    def usable_bytes(self) -> int:
        """What CUDA offers on one GPU."""
        return self.shape.usable_bytes_per_gpu

    @property
    def budget_bytes(self) -> int:
        """What vLLM may plan with on one GPU."""
        return self.plan.budget_bytes

    @property
    def needed_bytes(self) -> int:
        """What one GPU would have to offer vLLM."""
        return self.budget_bytes + self.missing_bytes

    @property
    def weights_bytes(self) -> int:
        """Weights on a GPU of the tightest stage."""
        return sum(part.size_bytes for part in self.parts if part.group in WEIGHT_GROUPS)

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache holds, 0 where there is no room."""
        return max(0, self.plan.kv_cache_tokens)

    @property
    def requests(self) -> float:
        """Requests of the context that was asked for, at once."""
        return max(0.0, self.plan.full_context_requests)

    @property
    def peak_used_bytes(self) -> int:
        """What is really used on one GPU at its peak, what vLLM does not budget included."""
        return self.plan.peak_used_bytes

    @property
    def highest_safe_utilization(self) -> float:
        """The highest `--gpu-memory-utilization` that leaves room for what vLLM does not budget."""
        return self.plan.highest_safe_utilization

    @property
    def proposed_utilization(self) -> float:
        """The utilisation that the planner proposes."""
        return self.plan.proposed_utilization

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour for all machines, where they are bought so that they stay; None where unknown."""
        return None if self.price is None else self.price.usd_per_hour * self.layout.nodes

    @property
    def machine_text(self) -> str:
        """The machine's name, with how many of them."""
        return self.shape.name if self.layout.nodes == 1 else f"{self.layout.nodes} × {self.shape.name}"

    @property
    def gpus_text(self) -> str:
        """Such as `8 × H200`."""
        return f"{self.shape.gpus * self.layout.nodes} × {self.shape.gpu}"

    @property
    def layout_text(self) -> str:
        """Such as `PP2 × TP8`; how many machines stands in `machine_text`."""
        return str(replace(self.layout, nodes=1))

    def verdict(self) -> str:
        """One or two words: `fits`, `lacks 56.3 GiB a GPU`, `no such layout`."""
        if self.faults:
            return "not in this layout"
        return "fits" if self.serves else f"lacks {gib_text(self.missing_bytes)} a GPU"

    def cells(self) -> tuple[str, ...]:
        """The table's cells up to the verdict."""
        room = self.kv_cache_tokens > 0 and not self.faults
        bought = "" if self.price is None or self.price.purchase == "on-demand" else " block"
        return (
            self.machine_text,
            self.gpus_text,
            self.layout_text,
            gib_text(self.weights_bytes),
            f"{self.kv_cache_tokens:,}" if room else "-",
            f"{self.requests:.1f}" if room else "-",
            usd_text(self.usd_per_hour) + bought,
        )

    def safety_lines(self) -> list[str]:
        """What vLLM does not budget, and the utilisation that it makes safe."""
        peak = self.plan.peak_used
        return [
            (
                f"Used at its peak, with what vLLM does not budget: {gib_text(peak.count, 2)}"
                f" ({peak.low / GIB:.2f} to {peak.high / GIB:.2f})."
            ),
            (
                f"--gpu-memory-utilization is safe up to {self.highest_safe_utilization:.2f}; proposed:"
                f" {self.proposed_utilization:.2f}."
            ),
        ]


@dataclass(frozen=True)
class FitReport:
    """The answer: one row for each machine, in the question's order; `instead` where none of them serves."""

    question: FitQuestion
    rows: tuple[FitRow, ...]
    instead: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it fits on any of the machines."""
        return any(row.serves for row in self.rows)

    def sentence(self) -> str:
        """The answer in one sentence."""
        fitting = [row for row in self.rows if row.serves]
        what = _asked(self.question)
        if not fitting:
            least = min(self.rows, key=lambda row: (bool(row.faults), row.missing_bytes))
            return f"{what} fits on none of these; nearest is {least.machine_text}, which {least.verdict()}."
        cheapest = min(
            fitting, key=lambda row: (row.usd_per_hour is None, row.usd_per_hour or 0.0, -row.kv_cache_tokens)
        )
        price = "at a price that nobody publishes" if cheapest.usd_per_hour is None else _price_words(cheapest)
        return (
            f"{what} fits on {len(fitting)} of {len(self.rows)} machines; the cheapest is {cheapest.machine_text}"
            f" ({cheapest.layout_text}), {price}, holding {cheapest.kv_cache_tokens:,} tokens."
            if len(self.rows) > 1
            else f"{what} fits on {cheapest.machine_text} ({cheapest.layout_text}), holding"
            f" {cheapest.kv_cache_tokens:,} tokens."
        )

    def refusal(self) -> str:
        """One paragraph: what is missing where, and the nearest thing that works."""
        if len(self.rows) > 1:
            return f"{self.sentence()} What works: {'; '.join(self.instead) or _NOTHING}."
        row = next(iter(self.rows))
        what, where = _asked(self.question), f"{row.machine_text} ({row.gpus_text}), {row.layout_text}"
        works = "; ".join((*row.nearest, *self.instead)) or _NOTHING
        if row.faults:
            return f"{what} cannot be laid out on {where}: {'; '.join(row.faults)}. What works: {works}."
        beside = sum(part.size_bytes for part in row.parts if part.group in BESIDE_GROUPS)
        return (
            f"{what} does not fit on {where}: each GPU lacks {gib_text(row.missing_bytes)}. It holds"
            f" {gib_text(row.weights_bytes)} of weights and {gib_text(beside)} of activations, graphs and runtime; vLLM"
            f" may use {gib_text(row.budget_bytes)} ({self.question.limits.gpu_memory_utilization:.0%} of"
            f" {gib_text(row.usable_bytes)}). What works: {works}."
        )

    def notes(self) -> list[str]:
        """Where the numbers come from."""
        guessed = sorted({row.shape.gpu for row in self.rows if row.shape.usable_is_estimate})
        notes = [
            (
                "Weights and bytes a token follow from shapes and are exact; activations, graphs and runtime were measured on"
                " H200s and carry a range, and so does the KV cache that they leave."
            ),
            (
                f"Machines as of {instance_shapes_as_of()}. $/hour is the lowest published on-demand price, a capacity"
                " block's where there is none; unknown means that nobody publishes one."
            ),
        ]
        if guessed:
            notes.append(f"Usable memory of {', '.join(guessed)} is an estimate.")
        return notes


def answer(question: FitQuestion) -> FitReport:
    """The row of every machine that was asked for, each in its plainest layout that holds everything."""
    rows = tuple(_best_row(question, shape) for shape in question.machines)
    if any(row.serves for row in rows):
        return FitReport(question, rows)
    looked_at = question.machines[0] if len(rows) == 1 else None
    return FitReport(question, rows, tuple(on_other_machines(question, looked_at)))


def serving_rows(question: FitQuestion) -> list[FitRow]:
    """On each machine the plainest layout that holds what was asked, and the roomiest where that holds 10 % more."""
    found: list[FitRow] = []
    for shape in question.machines:
        # Stages within a machine make every answer slower; they are for models that need several machines.
        rows = [
            row for row in _rows(question, shape) if row.serves and row.layout.pipeline_parallel <= question.wish.nodes
        ]
        if rows:
            roomiest = max(rows, key=lambda row: row.kv_cache_tokens)
            found.append(rows[0])
            if roomiest.kv_cache_tokens > _ROOMIER * rows[0].kv_cache_tokens:
                found.append(roomiest)
    return found


def _rows(question: FitQuestion, shape: InstanceShape) -> Iterator[FitRow]:
    for layout in layouts_for(question, shape):
        yield _row(question, shape, layout)


def _best_row(question: FitQuestion, shape: InstanceShape) -> FitRow:
    """The first layout that serves; else the first that nothing stands against; else the wished one."""
    wished = _row(question, shape, wished_layout(question.wish, shape))
    if wished.serves:
        return wished
    sound = wished if not wished.faults else None
    for row in _rows(question, shape):
        if row.serves:
            return row
        sound = sound or (None if row.faults else row)
    best = sound or wished
    return replace(best, nearest=tuple(on_the_machine(question, shape, best.layout)))


def _row(question: FitQuestion, shape: InstanceShape, layout: Layout) -> FitRow:
    plan = plan_fit(question.model, layout, shape, question.limits)
    return FitRow(
        shape=shape,
        layout=layout,
        plan=plan,
        parts=parts_of(plan),
        missing_bytes=_missing_bytes(plan, question.concurrency),
        prices=machine_prices(shape.name, question.region),
        price=dependable_price(shape.name, question.region),
    )


def _missing_bytes(plan: FitPlan, concurrency: int) -> int:
    """What each GPU of the tightest stage lacks for `concurrency` requests of the full context; 0 where they fit."""
    each = math.ceil(concurrency / plan.layout.data_parallel)
    limits = plan.limits
    lacks = [
        (each * rank.kv.request_blocks(limits.context_tokens, limits.max_batched_tokens) + 1) * rank.kv.block_bytes
        - rank.kv_bytes
        for rank in plan.ranks
    ]
    return max(0, *lacks)


def _asked(question: FitQuestion) -> str:
    tokens = f"{question.limits.context_tokens:,} tokens"
    if question.concurrency == 1:
        return f"{question.title} with one request of {tokens}"
    return f"{question.title} with {question.concurrency:,} requests of {tokens} at once"


def _price_words(row: FitRow) -> str:
    how = "" if row.price is None else {"on-demand": "on demand"}.get(row.price.purchase, "in a capacity block")
    return f"{usd_text(row.usd_per_hour)} an hour {how}"

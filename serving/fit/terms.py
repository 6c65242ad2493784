"""The lines of a memory plan, and what one pipeline stage makes of them."""

from dataclasses import dataclass
from enum import StrEnum

from serving.fit.kv_cache import KvLayout
from serving.fit.layout import Stage


class Group(StrEnum):
    """What a term belongs to."""

    WEIGHTS = "weights"
    LOADING = "loading"
    ACTIVATION = "activation"
    CUDA_GRAPHS = "CUDA graphs"
    NON_TORCH = "non-torch"
    OUTSIDE = "outside the budget"


@dataclass(frozen=True)
class Term:
    """One line of a plan: bytes on one GPU; `low` and `high` differ from them where it is fitted and not `exact`."""

    name: str
    count: int
    exact: bool
    low: int
    high: int
    group: Group


@dataclass(frozen=True)
class RankPlan:
    """One pipeline stage; all its GPUs hold the same.

    - `gpus`: how many hold this. `budget_terms`: what is taken off the budget. `outside_terms`: what lies on top of it.
    - `kv_bytes`: what is left for KV cache, below zero where nothing is. `kv`: how it is cut into blocks.
    """

    stage: Stage
    gpus: int
    budget_terms: tuple[Term, ...]
    outside_terms: tuple[Term, ...]
    kv_bytes: int
    kv: KvLayout

    def group_bytes(self, group: Group) -> int:
        """Bytes of all terms of `group`."""
        return sum(term.count for term in (*self.budget_terms, *self.outside_terms) if term.group is group)

    @property
    def kv_bytes_bounds(self) -> tuple[int, int]:
        """The least and the most that may be left for KV cache."""
        most = self.kv_bytes + sum(term.count - term.low for term in self.budget_terms)
        return self.kv_bytes - sum(term.high - term.count for term in self.budget_terms), most

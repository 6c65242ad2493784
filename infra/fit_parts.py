"""What fills a GPU, in the groups that people tell apart: one stack of parts for the text, the page and the JSON."""

from dataclasses import dataclass
from enum import StrEnum

from serving.checkpoint.weights import Kind
from serving.fit.plan import FitPlan, Term
from serving.fit.plan import Group as PlanGroup


class Group(StrEnum):
    """The groups of a stack, in their order from the bottom; the value is the word in a legend."""

    EXPERTS = "routed experts"
    SCALES = "experts' scales"
    ATTENTION = "attention"
    OTHER = "shared and dense layers, router, norms"
    EMBEDDING = "embedding and output head"
    VISION = "vision tower"
    DRAFT = "draft model"
    PADDING = "padding for the kernels"
    ACTIVATIONS = "activations"
    GRAPHS = "CUDA graphs"
    RUNTIME = "runtime and loading"
    KV_CACHE = "KV cache"
    OUTSIDE = "outside vLLM's budget"


WEIGHT_GROUPS = (
    Group.EXPERTS,
    Group.SCALES,
    Group.ATTENTION,
    Group.OTHER,
    Group.EMBEDDING,
    Group.VISION,
    Group.DRAFT,
    Group.PADDING,
)
BESIDE_GROUPS = (Group.ACTIVATIONS, Group.GRAPHS, Group.RUNTIME)
_OF_KIND = {
    Kind.ROUTED_EXPERTS: Group.EXPERTS,
    Kind.EXPERT_SCALES: Group.SCALES,
    Kind.SHARED_EXPERTS: Group.OTHER,
    Kind.ROUTER: Group.OTHER,
    Kind.DENSE_MLP: Group.OTHER,
    Kind.NORMS: Group.OTHER,
    Kind.ATTENTION: Group.ATTENTION,
    Kind.INDEXER: Group.ATTENTION,
    Kind.EMBEDDING: Group.EMBEDDING,
    Kind.OUTPUT_HEAD: Group.EMBEDDING,
    Kind.VISION: Group.VISION,
    Kind.DRAFT: Group.DRAFT,
}


@dataclass(frozen=True)
class Part:
    """Bytes of one group on the fullest GPU; `low` and `high` bound a measured one and equal an exact one."""

    group: Group
    size_bytes: int
    exact: bool
    low_bytes: int
    high_bytes: int


def parts_of(plan: FitPlan) -> tuple[Part, ...]:
    """The parts of a GPU of the plan's tightest stage, from the bottom up; the KV cache never below zero."""
    rank = plan.tightest
    found: dict[Group, Part] = {}
    for term in (*rank.budget_terms, *rank.outside_terms):
        group = _group_of(term)
        before = found.get(group, Part(group, 0, exact=True, low_bytes=0, high_bytes=0))
        found[group] = Part(
            group,
            before.size_bytes + term.count,
            exact=before.exact and term.exact,
            low_bytes=before.low_bytes + term.low,
            high_bytes=before.high_bytes + term.high,
        )
    low, high = (max(0, bound) for bound in rank.kv_bytes_bounds)
    found[Group.KV_CACHE] = Part(Group.KV_CACHE, max(0, rank.kv_bytes), exact=False, low_bytes=low, high_bytes=high)
    return tuple(found[group] for group in Group if group in found)


def _group_of(term: Term) -> Group:
    match term.group:
        case PlanGroup.WEIGHTS:
            # Terms of weights are named as their kind, attention's with what follows a comma.
            kind = next((kind for kind in Kind if term.name == kind.value), None)
            if kind is None and term.name.startswith(Kind.ATTENTION.value):
                kind = Kind.ATTENTION
            return Group.PADDING if kind is None else _OF_KIND[kind]
        case PlanGroup.ACTIVATION:
            return Group.ACTIVATIONS
        case PlanGroup.CUDA_GRAPHS:
            return Group.GRAPHS
        case PlanGroup.OUTSIDE:
            return Group.OUTSIDE
        case _:
            return Group.RUNTIME

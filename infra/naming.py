"""Names and tags of one environment: what tells its resources, its bills and its candidates from others'."""

from collections.abc import Mapping, Sequence

from infra.candidates import Candidate
from infra.environment import Environment

COST_TAG_KEY = "dormouse.dev/environment"


def prefix(environment: Environment) -> str:
    """The name that every resource of the environment starts with, such as `dormouse-dev`."""
    return f"dormouse-{environment.name}"


def required_tags(environment: Environment) -> dict[str, str]:
    """Tags of every resource: whose it is, what made it, and what the budget counts."""
    return {
        COST_TAG_KEY: environment.name,
        "dormouse.dev/owner": environment.owner,
        "dormouse.dev/managed-by": "dormouse",
    }


def slot_names(candidates: Sequence[Candidate], zone_ids: Mapping[str, str]) -> list[str]:
    """A name for each candidate, such as `spot-use2-az3`, unique and independent of the order.

    `zone_ids` maps a candidate's zone as written to its zone id. Two Capacity Blocks in one zone differ by the end of
    their reservation ids, as do all blocks, since a zone sees many of them over time.
    """
    names: list[str] = []
    for candidate in candidates:
        name = f"{candidate.purchase.value}-{zone_ids.get(candidate.zone, candidate.zone)}"
        if candidate.reservation_id is not None:
            name += f"-{candidate.reservation_id[-6:]}"
        names.append(name)
    return names

"""What the simulated EC2 has to sell: rules that refuse an instance, and Capacity Blocks that were bought."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from infra.sandbox.cloud.block_market import BlockMarket
from infra.sandbox.cloud.refusals import Refusal, refusal_for

Purchase = Literal["on-demand", "spot", "capacity-block"]
RuleKind = Literal["refuse", "never-joins"]

PURCHASES: tuple[str, ...] = ("on-demand", "spot", "capacity-block")
RULE_KINDS: tuple[str, ...] = ("refuse", "never-joins")

# EC2 takes the instances of a Capacity Block back this long before its end.
BLOCK_TERMINATION_LEAD = timedelta(minutes=30)


@dataclass
class CapacityRule:
    """One thing that goes wrong when an instance is asked for.

    - `kind`: `refuse` (no instance comes) or `never-joins` (the instance runs, its Kubernetes node never appears).
    - `instance_type`, `zone`, `purchase`: what the rule concerns; None is any.
    - `code`: the EC2 error to answer with, such as `MaxSpotInstanceCountExceeded`; None is the usual one.
    - `attempts`: how many requests it still concerns; None is any number.
    - `until`: when it ends, aware; None is never.
    - `rule_id`: given by `CapacityBook.add`.
    """

    kind: RuleKind = "refuse"
    instance_type: str | None = None
    zone: str | None = None
    purchase: Purchase | None = None
    code: str | None = None
    attempts: int | None = None
    until: datetime | None = None
    rule_id: str = ""

    def concerns(self, instance_type: str, zone: str, purchase: str, now: datetime) -> bool:
        """Whether this rule speaks about such a request at that time."""
        return (
            self.instance_type in (None, instance_type)
            and self.zone in (None, zone)
            and self.purchase in (None, purchase)
            and (self.attempts is None or self.attempts > 0)
            and (self.until is None or now < self.until)
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON; `from_mapping` reads it back."""
        return {**asdict(self), "until": self.until.isoformat() if self.until else None}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "CapacityRule":
        """Read a rule; raises ValueError naming what is wrong with it."""
        known = set(cls.__dataclass_fields__)
        unknown = sorted(set(mapping) - known)
        if unknown:
            raise ValueError(f"unknown keys {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        values = dict(mapping)
        if values.get("kind", "refuse") not in RULE_KINDS:
            raise ValueError(f"kind {values['kind']!r}; accepted: {', '.join(RULE_KINDS)}")
        if values.get("purchase") not in (None, *PURCHASES):
            raise ValueError(f"purchase {values['purchase']!r}; accepted: {', '.join(PURCHASES)}")
        attempts = values.get("attempts")
        if attempts is not None and (not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1):
            raise ValueError(f"attempts {attempts!r}; accepted: a whole number above 0, or null")
        if values.get("until") is not None:
            values["until"] = _aware(str(values["until"]))
        return cls(**values)


@dataclass
class CapacityBlock:
    """A Capacity Block for ML that the account owns: `instance_count` machines in one zone from `start` to `end`."""

    reservation_id: str
    instance_type: str
    zone: str
    start: datetime
    end: datetime
    instance_count: int = 1
    tags: dict[str, str] = field(default_factory=dict[str, str])
    created: datetime | None = None

    def state(self, now: datetime) -> str:
        """EC2's word for it: `scheduled`, `active` or `expired`."""
        if now < self.start:
            return "scheduled"
        return "active" if now < self.end else "expired"

    def takes_instances_back(self, now: datetime) -> bool:
        """Whether EC2 terminates what runs in it: from 30 minutes before the end."""
        return now >= self.end - BLOCK_TERMINATION_LEAD

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON; `from_mapping` reads it back."""
        created = None if self.created is None else self.created.isoformat()
        return {**asdict(self), "start": self.start.isoformat(), "end": self.end.isoformat(), "created": created}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "CapacityBlock":
        """Read a block; raises ValueError naming what is wrong with it."""
        required = ("reservation_id", "instance_type", "zone", "start", "end")
        missing = [key for key in required if not mapping.get(key)]
        unknown = sorted(set(mapping) - set(cls.__dataclass_fields__))
        if missing or unknown:
            raise ValueError(
                f"missing keys: {', '.join(missing) or 'none'}; unknown keys: {', '.join(unknown) or 'none'}"
            )
        start, end = _aware(str(mapping["start"])), _aware(str(mapping["end"]))
        if end <= start:
            raise ValueError(f"the block ends at {end.isoformat()}, not after its start {start.isoformat()}")
        created = _aware(str(mapping["created"])) if mapping.get("created") else None
        values = cast("dict[str, Any]", {**mapping, "start": start, "end": end, "created": created})
        return cls(**values)


class CapacityBook:
    """The rules and blocks of one simulation."""

    def __init__(self) -> None:
        """Nothing refuses and no block is owned."""
        self.rules: dict[str, CapacityRule] = {}
        self.blocks: dict[str, CapacityBlock] = {}
        # When each spot instance that EC2 takes back got its notice, in simulated seconds since 1970, by instance id.
        self.notices: dict[str, float] = {}
        self.market = BlockMarket()
        # Quotas that differ from the simulated account's usual ones, by name.
        self.quotas: dict[str, float] = {}
        self._numbers = itertools.count(1)

    def add(self, rule: CapacityRule) -> CapacityRule:
        """Keep `rule` and give it its `rule_id`."""
        rule.rule_id = f"rule-{next(self._numbers)}"
        self.rules[rule.rule_id] = rule
        return rule

    def remove(self, rule_id: str) -> bool:
        """Drop a rule; False where there is none with that id."""
        return self.rules.pop(rule_id, None) is not None

    def refusal(
        self,
        instance_type: str,
        zone: str,
        purchase: str,
        now: datetime,
        reservation_id: str | None = None,
        running_in_block: int = 0,
    ) -> Refusal | None:
        """Why EC2 would not launch this instance now, or None where it would; counts one attempt against a rule.

        - `reservation_id`: the Capacity Block that the launch template names.
        - `running_in_block`: instances that run in that block already.
        """
        for rule in self.rules.values():
            if rule.kind == "refuse" and rule.concerns(instance_type, zone, purchase, now):
                if rule.attempts is not None:
                    rule.attempts -= 1
                return refusal_for(purchase, instance_type, zone, rule.code, reservation_id)
        if purchase == "capacity-block":
            return self._block_refusal(instance_type, zone, now, reservation_id, running_in_block)
        return None

    def _block_refusal(
        self, instance_type: str, zone: str, now: datetime, reservation_id: str | None, running: int
    ) -> Refusal | None:
        block = self.blocks.get(reservation_id or "")
        if block is None:
            return refusal_for(
                "capacity-block", instance_type, zone, "InvalidCapacityReservationId.NotFound", reservation_id
            )
        if block.state(now) != "active" or block.takes_instances_back(now):
            code = "InvalidCapacityReservationState"
            return refusal_for("capacity-block", instance_type, zone, code, reservation_id, block.state(now))
        if (block.instance_type, block.zone) != (instance_type, zone) or running >= block.instance_count:
            return refusal_for("capacity-block", instance_type, zone, None, reservation_id)
        return None

    def joins(self, instance_type: str, zone: str, purchase: str, now: datetime) -> bool:
        """Whether an instance launched now becomes a Kubernetes node; counts one attempt against a rule."""
        for rule in self.rules.values():
            if rule.kind == "never-joins" and rule.concerns(instance_type, zone, purchase, now):
                if rule.attempts is not None:
                    rule.attempts -= 1
                return False
        return True


def _aware(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)

"""When a Capacity Block can be used: from its start until the drain before its end has to begin. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from infra.preflight.reservations import Reservation
from serving.units import duration_text

SCALE_DOWN_LEAD = timedelta(minutes=40)
"""EKS lowers a Capacity Block's node group this long before the end; EC2 terminates from 30 minutes before (EKS user
guide, `capacity-blocks-mng`). A drain has to be over by then."""

DETACH_MARGIN = timedelta(minutes=5)
"""What the pod's end and the volume's detaching get between the drain and EKS's own scale-down."""

# An instance's start until its node is Ready; what users of EKS report for these machines.
_NODE_START_S = 300.0


@dataclass(frozen=True)
class BlockWindow:
    """What is left of one Capacity Block; all times aware, None where EC2 gives none.

    - `state`: EC2's word, such as `scheduled`, `active`, `expired`; `missing` where the account has no such block.
    - `usable_from`: its start.
    - `usable_until`: when draining has to begin, so that nothing is cut and the volume is free in time.
    - `ends`: its end.
    - `instances`, `free`: machines in the block, and those that nothing runs on.
    """

    reservation_id: str
    state: str
    usable_from: datetime | None
    usable_until: datetime | None
    ends: datetime | None
    instances: int = 0
    free: int = 0

    def is_open(self, at: datetime) -> bool:
        """Whether the block can serve at that moment."""
        begun = self.usable_from is None or self.usable_from <= at
        return self.state == "active" and begun and not self.is_over(at)

    def is_over(self, at: datetime) -> bool:
        """Whether it is time to drain, or past it; a block that is gone for good is over too."""
        gone = self.state in ("missing", "expired", "cancelled", "failed", "payment-failed", "unsupported")
        return gone or (self.usable_until is not None and at >= self.usable_until)

    def left_s(self, at: datetime) -> float | None:
        """Seconds until draining has to begin, not below 0; None where the block never ends."""
        return None if self.usable_until is None else max(0.0, (self.usable_until - at).total_seconds())

    def too_short(self, at: datetime, planned_load_s: float) -> str:
        """Why a start is not worth it any more, in words; empty where it is."""
        left_s, needed_s = self.left_s(at), shortest_use_s(planned_load_s)
        if left_s is None or self.ends is None or left_s >= needed_s:
            return ""
        return (
            f"capacity block {self.reservation_id} ends at {self.ends:%Y-%m-%d %H:%M} UTC and has to be drained from "
            f"{self.usable_until:%H:%M} on: {duration_text(left_s)} are left, and a start is worth it from "
            f"{duration_text(needed_s)} on; `dormouse block extend` shows whether it can be made longer"
        )

    def words(self, at: datetime) -> str:
        """The window in a sentence for people."""
        if self.state == "missing":
            return f"capacity block {self.reservation_id} does not exist in this account and region"
        if self.usable_from is not None and self.usable_from > at:
            ahead = duration_text((self.usable_from - at).total_seconds())
            return f"capacity block {self.reservation_id} starts at {self.usable_from:%Y-%m-%d %H:%M} UTC, in {ahead}"
        if self.ends is None or self.usable_until is None:
            return f"capacity block {self.reservation_id} is {self.state}"
        ends = f"ends at {self.ends:%Y-%m-%d %H:%M} UTC"
        if self.state != "active":
            verb = "ended" if self.ends <= at else "ends"
            return f"capacity block {self.reservation_id} is {self.state}; it {verb} at {self.ends:%Y-%m-%d %H:%M} UTC"
        if self.is_over(at):
            return f"capacity block {self.reservation_id} {ends}; it is time to drain: `dormouse move`"
        return (
            f"capacity block {self.reservation_id} {ends}; usable until {self.usable_until:%Y-%m-%d %H:%M}, for "
            f"{duration_text(self.left_s(at) or 0.0)}; `dormouse block extend` shows whether it can be made longer"
        )


def block_window(reservation: Reservation, drain_s: float) -> BlockWindow:
    """The window of `reservation` where requests get `drain_s` seconds to end."""
    until = None
    if reservation.end is not None:
        until = reservation.end - SCALE_DOWN_LEAD - DETACH_MARGIN - timedelta(seconds=drain_s)
    return BlockWindow(
        reservation.reservation_id,
        reservation.state,
        reservation.start,
        until,
        reservation.end,
        reservation.total,
        reservation.free,
    )


def missing_block(reservation_id: str) -> BlockWindow:
    """The window of a block that EC2 does not know."""
    return BlockWindow(reservation_id, "missing", None, None, None)


def shortest_use_s(planned_load_s: float) -> float:
    """The least time a block must have left for a start: as long again for serving as the start itself takes."""
    return 2 * (planned_load_s + _NODE_START_S)

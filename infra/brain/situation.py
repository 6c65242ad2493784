"""What `decide()` looks at: one moment of an environment, as plain frozen values."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SlotState(StrEnum):
    """How far one capacity candidate has come; `unknown` where it could not be read."""

    ASLEEP = "asleep"
    WAKING = "waking"
    LOADING = "loading"
    AWAKE = "awake"
    DRAINING = "draining"
    STOPPING = "stopping"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SlotNow:
    """One capacity candidate as it stands.

    - `replica`: the replica that it may hold; of the candidates of one replica at most one is up, but for a move.
    - `since`: when its state began (for `draining`: when it stopped taking requests), or None.
    - `running`, `waiting`: requests, or None where the metrics could not be read; `unknown_reason` then says why.
    - `usd_per_hour`: while a machine runs; None where nobody publishes the price.
    - `prepaid`: whether the machine is paid for already (a Capacity Block), so that sleeping saves nothing.
    - `starts_at`, `ends_at`: of the Capacity Block.
    - `interruption_at`: when AWS takes the spot machine, as its notice says.
    - `refused_until`: no new attempt before this moment, after AWS had no capacity.
    """

    name: str
    state: SlotState
    since: datetime | None = None
    running: int | None = 0
    waiting: int | None = 0
    unknown_reason: str = ""
    usd_per_hour: float | None = None
    prepaid: bool = False
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    interruption_at: datetime | None = None
    refused_until: datetime | None = None
    replica: int = 0

    @property
    def requests(self) -> int | None:
        """Requests that a stop would cut; None where that is unknown."""
        if self.running is None or self.waiting is None:
            return None
        return self.running + self.waiting


@dataclass(frozen=True, slots=True)
class Situation:
    """One moment. Every datetime carries a time zone.

    - `slots`: the candidates, in the order of preference.
    - `last_activity`: when a request was last seen running or counted; None where none ever was.
    - `wake_requests`: callers who asked for the service while it slept, each with a valid key.
    - `hold_until`, `held_by`: until then nothing changes by itself.
    - `awake_until`: a person wants it awake until then.
    - `spent_usd`: this month, from our own running hours; None where it could not be told.
    - `expires_at`: the environment's end.
    - `wake_s`, `drain_s`: estimated seconds from asleep to serving, and the longest that running answers may take.
    - `look_s`: seconds between two looks.
    """

    now: datetime
    slots: tuple[SlotNow, ...]
    last_activity: datetime | None = None
    wake_requests: int = 0
    hold_until: datetime | None = None
    held_by: str = ""
    awake_until: datetime | None = None
    spent_usd: float | None = 0.0
    expires_at: datetime | None = None
    wake_s: float = 1200.0
    drain_s: float = 600.0
    look_s: float = 60.0

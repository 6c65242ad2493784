"""What a running job tells: steps while it goes on, a report at its end."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.clock import Clock
from infra.jobs.capacity import Refusal


@dataclass(frozen=True)
class Step:
    """One thing that a job does or waits for.

    - `stage`: lock, capacity, node, scheduling, loading, ready, refused, drain, stop, volume, note or done.
    - `text`: a sentence for people.
    - `at`: when it was said.
    - `remaining_s`: the estimated rest of this stage in seconds, or None.
    """

    stage: str
    text: str
    at: datetime
    remaining_s: float | None = None


Progress = Callable[[Step], None]
"""Called at every step, and again while one lasts; it may raise to stop the job where it is."""


def silent(_step: Step) -> None:
    """Progress for nobody."""


@dataclass(frozen=True)
class Report:
    """How a job ended.

    - `goal`: wake or hibernate.
    - `state`: awake or asleep; for a dry run the state that was found.
    - `changed`: False where there was nothing to do.
    - `sentence`: the result for people.
    - `slot`: the candidate that serves, or None.
    - `refusals`: candidates that gave no node.
    - `notes`: what a person should know besides.
    - `steps`: everything that was said on the way, or what a dry run would do.
    - `took_s`: seconds of the clock.
    """

    goal: str
    state: str
    changed: bool
    sentence: str
    took_s: float
    slot: str | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    dry_run: bool = False

    def to_mapping(self) -> dict[str, Any]:
        """The report as plain JSON, in camelCase like the outputs."""
        return {
            "goal": self.goal,
            "state": self.state,
            "changed": self.changed,
            "dryRun": self.dry_run,
            "sentence": self.sentence,
            "slot": self.slot,
            "tookSeconds": round(self.took_s),
            "refusals": [
                {"slot": one.slot, "kind": one.kind, "words": one.words, "afterSeconds": round(one.after_s)}
                for one in self.refusals
            ],
            "notes": list(self.notes),
            "steps": [
                {"stage": step.stage, "text": step.text, "at": step.at.isoformat(timespec="seconds")}
                for step in self.steps
            ],
        }


class Journal:
    """Keeps what was said and passes it on."""

    def __init__(self, clock: Clock, progress: Progress) -> None:
        """Start an empty journal now."""
        self._clock = clock
        self._progress = progress
        self._began_s = clock.monotonic_s()
        self.steps: list[Step] = []
        self.notes: list[str] = []

    def say(self, stage: str, text: str, remaining_s: float | None = None) -> None:
        """Tell a step; the same words again only refresh the estimate."""
        step = Step(stage, text, self._clock.now(), remaining_s)
        if not self.steps or (self.steps[-1].stage, self.steps[-1].text) != (stage, text):
            self.steps.append(step)
        self._progress(step)

    def note(self, text: str) -> None:
        """Tell something that also belongs into the report."""
        self.notes.append(text)
        self.say("note", text)

    @property
    def took_s(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic_s() - self._began_s

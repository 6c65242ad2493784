"""Every error that Dormouse raises on purpose.

    DormouseError
    ├── ConfigurationError   what the user wrote is wrong: all faults at once
    ├── DoesNotFitError      the model does not fit in GPU memory
    ├── UnknownFactError     a model, instance type, price or version that no data file holds
    ├── CapacityError        every capacity candidate refused
    └── JobError             a job could not end in the state that was asked for

A message says what is wrong, where, and what would work. The command line prints it and no traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class DormouseError(Exception):
    """The root: catching it catches everything that Dormouse raises on purpose."""


@dataclass(frozen=True)
class Fault:
    """One wrong setting.

    - `key`: where it stands, such as `dormouse:capacity[1].zone`.
    - `value`: what was given, as the user wrote it; never a secret.
    - `accepted`: what would be accepted, as the end of the sentence "accepted: …".
    """

    key: str
    value: str
    accepted: str

    def __str__(self) -> str:
        """One line: key, value, remedy."""
        return f"{self.key}: got {self.value}; accepted: {self.accepted}"


class ConfigurationError(DormouseError):
    """A configuration with one or more faults, all of them named."""

    def __init__(self, faults: Sequence[Fault], where: str = "the stack's configuration") -> None:
        """Gather `faults` (at least one) found in `where`."""
        self.faults = tuple(faults)
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__(f"{count} in {where}:\n" + "\n".join(f"  - {fault}" for fault in self.faults))


class DoesNotFitError(DormouseError):
    """The model does not fit: the message names the missing GiB per GPU and the nearest layouts that work."""


class UnknownFactError(DormouseError):
    """Something that no data file knows: the message lists what is known."""


class CapacityError(DormouseError):
    """No candidate could give a GPU node; the message holds each candidate's own refusal."""


class JobError(DormouseError):
    """A job stopped before its end; the message says in which state it left things and what to run next."""

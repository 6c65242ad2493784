"""What can go wrong while weights are fetched, by what is done about it."""

import errno

from serving.errors import JobError

GIB = 2**30
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
STOPPED = "told to end; what is there is kept, and the next run goes on from it"


class HydrateError(JobError):
    """The end: trying again by itself would not help. The message says what would."""


class DiskFullError(HydrateError):
    """The volume is too small; the message names the missing GiB."""


class BusyError(HydrateError):
    """Another hydrator works on the same folder."""


class UnprovenError(HydrateError):
    """A check found the weights wrong, or nothing that says they were ever right: they do not count as proven."""


class StoppedError(HydrateError):
    """The pod was told to end (SIGTERM); what is there is kept and the next run goes on from it."""


class TransferError(Exception):
    """A transfer broke off: worth another attempt.

    `wait_s`: how long the source asked to wait; None where it did not.
    """

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        """Say what happened."""
        super().__init__(text)
        self.wait_s = wait_s


class WrongHashError(Exception):
    """A file's bytes are not those that the source states."""


def disk_full(missing_bytes: int, target: str) -> DiskFullError:
    """The error for a volume that lacks `missing_bytes`."""
    gib = max(missing_bytes, 1) / GIB
    shown = f"{gib:,.1f} GiB" if gib >= 0.1 else f"{max(missing_bytes, 1) / 2**20:,.1f} MiB"
    return DiskFullError(
        f"the volume of {target} is too small: {shown} are missing. Raise dormouse:weightsSizeGib, run `pulumi up` "
        "(an EBS volume grows while it is attached), then `dormouse weights hydrate`: it goes on where it stopped"
    )

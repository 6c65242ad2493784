"""How often and how long a broken transfer is tried again."""

import random
from threading import Event

from components.programs.hydrator.faults import STOPPED, HydrateError, StoppedError, TransferError

_LONGEST_WAIT_S = 60.0
_LONGEST_ASKED_WAIT_S = 600.0


class Patience:
    """Attempts at one thing: waits grow twofold from `backoff_s`, and start anew whenever bytes have come."""

    def __init__(self, attempts: int, backoff_s: float, stop: Event) -> None:
        """Allow `attempts` in a row that bring nothing; `stop` ends every wait."""
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._stop = stop
        self._failed = 0

    def progressed(self) -> None:
        """Something came: the count of attempts in vain starts anew."""
        self._failed = 0

    def wait_after(self, broken: TransferError, what: str) -> None:
        """Wait before the next attempt; raises HydrateError after the last one, StoppedError when told to end."""
        self.check_stop()
        self._failed += 1
        if self._failed >= self._attempts:
            raise HydrateError(
                f"{what}: gave up after {self._failed} attempts in a row that brought nothing; the last one: {broken}. "
                "What is there is kept: run `dormouse weights hydrate` again when the source answers"
            ) from broken
        grown = min(self._backoff_s * 2 ** (self._failed - 1), _LONGEST_WAIT_S)
        # Spread by chance, so that files which broke together do not come back together.
        wait_s = grown * random.uniform(0.5, 1.0)  # noqa: S311
        if broken.wait_s is not None:
            wait_s = max(wait_s, min(broken.wait_s, _LONGEST_ASKED_WAIT_S))
        if self._stop.wait(wait_s):
            self.check_stop()

    def check_stop(self) -> None:
        """Raise StoppedError when told to end."""
        if self._stop.is_set():
            raise StoppedError(STOPPED)

"""Runs every controller when something changed, or when the moment has come that one of them waits for."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from infra.sandbox.kubernetes.store import Store

_LOOK_S = 0.05
_PASSES = 20


class Controller(Protocol):
    """One loop of the control plane."""

    def reconcile(self) -> datetime | None:
        """Do what can be done now; gives the moment to look again though nothing changes, or None."""
        ...


class ControlLoop:
    """A thread that drives controllers, one after the other."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime],
        controllers: Sequence[Controller],
        failed: Callable[[str], None],
    ) -> None:
        """Start nothing yet; `failed` takes the words of a fault in a controller, which does not stop the loop."""
        self._store = store
        self._now = now
        self._controllers = controllers
        self._failed = failed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes-controllers", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the pass that is running."""
        self._stopping.set()
        with self._store.changed:
            self._store.changed.notify_all()
        self._thread.join(timeout=30)

    def settle(self) -> datetime | None:
        """Run the controllers until none of them changes anything; gives the next moment to look again."""
        due: list[datetime] = []
        for _ in range(_PASSES):
            before = self._store.revision
            due = []
            for controller in self._controllers:
                try:
                    moment = controller.reconcile()
                except Exception as error:  # noqa: BLE001 - a fault in one controller must not stop the others
                    self._failed(f"{type(controller).__name__}: {type(error).__name__}: {error}")
                    moment = self._now()
                if moment is not None:
                    due.append(moment)
            if self._store.revision == before:
                break
        return min(due, default=None)

    def _run(self) -> None:
        while not self._stopping.is_set():
            due = self.settle()
            seen = self._store.revision
            # A breath between passes, so that a burst of writes is handled together.
            self._stopping.wait(_LOOK_S / 5)
            while not self._stopping.is_set() and self._store.revision == seen:
                if due is not None and self._now() >= due:
                    break
                with self._store.changed:
                    if self._store.revision == seen:
                        self._store.changed.wait(_LOOK_S)

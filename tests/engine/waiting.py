"""Waiting for what another process does in its own time."""

import time
from collections.abc import Callable

import pytest


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Poll `holds`; fails the test with `what` when it has not come true after `timeout_s` real seconds."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not reached in {timeout_s} s: {what}")
        time.sleep(0.1)

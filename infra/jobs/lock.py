"""One job at a time on one stack: a Kubernetes Lease that its holder renews, and that a dead holder loses."""

import getpass
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from infra.clock import Clock
from infra.jobs.kubernetes_api import Conflict, KubernetesApi, KubernetesError, NotFound
from infra.jobs.observe_cluster import LEASE_NAME, instant, part
from infra.jobs.progress import Journal
from infra.jobs.state import OPERATION_STALE_S
from serving.errors import JobError
from serving.manifests.labels import GOAL_ANNOTATION, OUTCOME_ANNOTATION

_RENEW_AFTER_S = 10.0
_POLL_S = 5.0
# A stale lease is watched this long before it is taken, so that a holder whose clock is behind keeps it.
_WATCH_S = 15.0
# A sped-up clock passes 15 s within one network call, so some real time must pass as well.
_WATCH_REAL_S = 2.0


class LostLockError(JobError):
    """Another job took the lock over, because this one gave no sign of life for too long."""


@dataclass(frozen=True)
class Outcome:
    """How the last holder ended: `ok`, and its `words` for people."""

    goal: str
    holder: str
    ok: bool
    words: str


class OperationLock:
    """The Lease `dormouse-operation` in the stack's namespace.

    Acquire it, call `keep` while working at least once a minute, and `release` it at the end, whatever happened.
    """

    def __init__(self, api: KubernetesApi, namespace: str, clock: Clock, goal: str) -> None:
        """Prepare a lock for `goal`, such as `wake`; nothing is asked yet."""
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{LEASE_NAME}"
        self._namespace = namespace
        self._clock = clock
        self._goal = goal
        self.holder = f"{_user()}@{socket.gethostname()}/{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._renewed_s: float | None = None

    def acquire(
        self,
        journal: Journal,
        deadline_s: float,
        while_waiting: Callable[[], None],
        on_other: Literal["wait", "refuse", "take"] = "wait",
    ) -> Outcome | None:
        """Make the lock ours.

        - `deadline_s`: the clock's monotonic time at which to give up.
        - `while_waiting`: called every few seconds while another job with the same goal works, to tell how far it is.
        - `on_other`: whether a living job with another goal is waited for, respected at once, or robbed; `take` robs
          one with the same goal too. A robbed job stops at its next step.

        Returns the outcome of the job with the same goal that was waited for, or None.
        Raises JobError where another job keeps it, and KubernetesError.
        """
        followed: str | None = None
        watch = _StaleWatch(self._clock)
        while True:
            lease = self._read()
            spec = part(lease or {}, "spec")
            holder: str = spec.get("holderIdentity") or ""
            goal = _annotations(lease).get(GOAL_ANNOTATION, "another job")
            dead = bool(holder) and watch.is_dead(holder, spec.get("renewTime"))
            if not holder or holder == self.holder or dead or on_other == "take":
                if not self._take(lease):
                    continue
                if holder and holder != self.holder:
                    why = ", which gave no sign of life" if dead else f", which ran {goal}"
                    journal.note(f"took the lock over from {holder}{why}")
                return self._outcome_of(lease, followed)
            if goal != self._goal and on_other == "refuse" and not watch.looks_dead:
                raise JobError(
                    f"{goal} by {holder} is running since {spec.get('acquireTime')}, so somebody wants this stack "
                    f"now; nothing was changed: wait for it to end, or run {self._goal} --force"
                )
            if self._clock.monotonic_s() > deadline_s:
                raise JobError(
                    f"{goal} by {holder} has been running since {spec.get('acquireTime')}; nothing was changed: wait "
                    f"for it and run again, or end that process"
                )
            if goal == self._goal:
                followed = holder
                journal.say("lock", f"{goal} is already running ({holder}); following it")
                while_waiting()
            else:
                journal.say("lock", f"waiting for {goal} by {holder} to end")
            self._clock.sleep(_POLL_S)

    def keep(self, certainly: bool = False) -> None:
        """Renew, where the last renewal is some seconds old, or `certainly`: do so before every change.

        Raises LostLockError where somebody else holds the lock now: stop at once then.
        """
        now_s = self._clock.monotonic_s()
        if not certainly and self._renewed_s is not None and now_s - self._renewed_s < _RENEW_AFTER_S:
            return
        for _ in range(3):
            lease = self._read()
            holder = part(lease or {}, "spec").get("holderIdentity")
            if lease is None or holder != self.holder:
                raise LostLockError(
                    f"{holder or 'somebody'} took the lock of this stack over; this {self._goal} stopped where it "
                    "was, and running it again is safe"
                )
            if self._take(lease):
                return
        raise LostLockError(f"the lock of this stack could not be renewed; this {self._goal} stopped where it was")

    def release(self, ok: bool | None, words: str) -> None:
        """Give the lock back and leave the outcome for whoever follows; never raises for the API server's sake.

        `ok` is None for a job that was interrupted: a follower then goes on in its place.
        """
        try:
            lease = self._read()
            if lease is None or part(lease, "spec").get("holderIdentity") != self.holder:
                return
            annotations = _annotations(lease)
            annotations.pop(OUTCOME_ANNOTATION, None)
            if ok is not None:
                outcome = {"goal": self._goal, "holder": self.holder, "ok": ok, "words": words[:4000]}
                annotations[OUTCOME_ANNOTATION] = json.dumps(outcome)
            metadata = {**lease["metadata"], "annotations": annotations}
            self._api.replace(
                self._path, {**lease, "metadata": metadata, "spec": {**lease["spec"], "holderIdentity": ""}}
            )
        except KubernetesError:
            # The lease runs out by itself within a minute.
            return

    def _read(self) -> dict[str, Any] | None:
        try:
            return self._api.get(self._path)
        except NotFound:
            return None

    def _take(self, lease: dict[str, Any] | None) -> bool:
        """Write ourselves down as the holder; False where somebody was faster."""
        now_s, stamp = self._clock.monotonic_s(), _micro_time(self._clock.now())
        before = part(lease or {}, "spec")
        ours = before.get("holderIdentity") == self.holder
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": int(OPERATION_STALE_S),
            "acquireTime": before["acquireTime"] if ours else stamp,
            "renewTime": stamp,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours else 1),
        }
        annotations = _annotations(lease)
        annotations[GOAL_ANNOTATION] = self._goal
        try:
            if lease is None:
                metadata = {"name": LEASE_NAME, "namespace": self._namespace, "annotations": annotations}
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
                self._api.create(self._collection, body)
            else:
                metadata = {**lease["metadata"], "annotations": annotations}
                self._api.replace(self._path, {**lease, "metadata": metadata, "spec": spec})
        except Conflict:
            return False
        except NotFound as error:
            if lease is not None:
                return False
            raise JobError(
                f"namespace {self._namespace} does not exist in the cluster: the stack was destroyed or never came "
                "up; `pulumi up` makes it"
            ) from error
        self._renewed_s = now_s
        return True

    def _outcome_of(self, lease: dict[str, Any] | None, followed: str | None) -> Outcome | None:
        if followed is None:
            return None
        text = _annotations(lease).get(OUTCOME_ANNOTATION, "")
        try:
            outcome = Outcome(**json.loads(text))
        except (ValueError, TypeError):
            return None
        return outcome if outcome.holder == followed else None


class _StaleWatch:
    """Tells a dead holder from a slow one: its renewal is old by its stamp, and stays as it is while watched."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.looks_dead = False
        self._seen: tuple[str, str | None] | None = None
        self._since_s = 0.0
        self._since_real_s = 0.0

    def is_dead(self, holder: str, renew_time: str | None) -> bool:
        age_s = OPERATION_STALE_S + 1
        if renew_time:
            age_s = (self._clock.now() - instant(renew_time)).total_seconds()
        self.looks_dead = age_s > OPERATION_STALE_S
        if (holder, renew_time) != self._seen:
            self._seen = (holder, renew_time)
            self._since_s, self._since_real_s = self._clock.monotonic_s(), time.monotonic()
            return False
        watched = (
            self._clock.monotonic_s() - self._since_s >= _WATCH_S
            and time.monotonic() - self._since_real_s >= _WATCH_REAL_S
        )
        return self.looks_dead and watched


def _annotations(lease: dict[str, Any] | None) -> dict[str, str]:
    """A copy of the lease's annotations."""
    return dict(part(lease or {}, "metadata", "annotations"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

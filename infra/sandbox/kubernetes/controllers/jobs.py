"""Jobs run their pods to the end. CronJobs are stored and never fire."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.conditions import is_ready, with_condition
from infra.sandbox.kubernetes.controllers.workloads import create_pod, owned_pods
from infra.sandbox.kubernetes.documents import child
from infra.sandbox.kubernetes.resource_types import JOBS
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]


class JobController:
    """Makes pods until as many have succeeded as the Job asks for."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """Act on nothing yet."""
        self._store = store
        self._now = now

    def reconcile(self) -> datetime | None:
        """One pass over all Jobs."""
        for job in self._store.items(JOBS):
            status: Object = child(job, "status")
            if not job["metadata"].get("deletionTimestamp") and not status.get("completionTime"):
                self._follow(job, status)
        return None

    def _follow(self, job: Object, before: Object) -> None:
        spec: Object = job["spec"]
        pods = owned_pods(self._store, job)
        succeeded = sum(pod["status"].get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        missing = min(spec["parallelism"], spec["completions"] - succeeded) - len(active)
        if not spec.get("suspend"):
            for _ in range(max(0, missing)):
                labels = {"batch.kubernetes.io/job-name": job["metadata"]["name"], "job-name": job["metadata"]["name"]}
                if made := create_pod(self._store, JOBS, job, spec["template"], labels=labels):
                    active.append(made)
        time = time_text(self._now())
        status: Object = {"startTime": before.get("startTime", time), "ready": sum(map(is_ready, active))}
        if active:
            status["active"] = len(active)
        if succeeded:
            status["succeeded"] = succeeded
        if succeeded >= spec["completions"]:
            status["completionTime"] = time
            status["conditions"] = with_condition([], "Complete", True, "CompletionsReached", "", time)
        metadata: Object = job["metadata"]
        self._store.update(JOBS, metadata["namespace"], metadata["name"], lambda obj: obj.update(status=status))

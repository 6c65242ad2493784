"""Jobs run their pods to the end. CronJobs are stored and never fire."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.conditions import is_ready, with_condition
from infra.sandbox.kubernetes.controllers.workloads import create_pod, owned_pods
from infra.sandbox.kubernetes.documents import child, children
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
            ended = status.get("completionTime") or _has_failed(status)
            if not job["metadata"].get("deletionTimestamp") and not ended:
                self._follow(job, status)
        return None

    def _follow(self, job: Object, before: Object) -> None:
        spec: Object = job["spec"]
        pods = owned_pods(self._store, job)
        succeeded = sum(pod["status"].get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
        why = _failure(spec, failed)
        missing = 0 if why else min(spec["parallelism"], spec["completions"] - succeeded) - len(active)
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
        if failed:
            status["failed"] = len(failed)
        if why:
            status["conditions"] = with_condition([], "Failed", True, *why, time)
        elif succeeded >= spec["completions"]:
            status["completionTime"] = time
            status["conditions"] = with_condition([], "Complete", True, "CompletionsReached", "", time)
        metadata: Object = job["metadata"]
        self._store.update(JOBS, metadata["namespace"], metadata["name"], lambda obj: obj.update(status=status))


def _has_failed(status: Object) -> bool:
    return any(one["type"] == "Failed" and one["status"] == "True" for one in children(status, "conditions"))


def _failure(spec: Object, failed: list[Object]) -> tuple[str, str] | None:
    """Reason and message where the Job gives up: by its podFailurePolicy's FailJob rules, or after too many pods."""
    for pod in failed:
        for status in children(pod["status"], "containerStatuses"):
            code = child(child(status, "state"), "terminated").get("exitCode")
            for index, rule in enumerate(children(child(spec, "podFailurePolicy"), "rules")):
                codes: Object = child(rule, "onExitCodes")
                named = codes.get("containerName") in (None, status["name"])
                if rule["action"] == "FailJob" and named and code in children(codes, "values"):
                    metadata: Object = pod["metadata"]
                    words = (
                        f"Container {status['name']} for pod {metadata['namespace']}/{metadata['name']} failed with exit "
                        f"code {code} matching FailJob rule at index {index}"
                    )
                    return "PodFailurePolicy", words
    if len(failed) > spec.get("backoffLimit", 6):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    return None

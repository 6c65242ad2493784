"""Filling and checking weight volumes: a Job made of the volume's CronJob, followed to its end.

No lock is taken for the hour that this may last: the Job's name is the lock, since only one can have it, and a second
run follows the first. Killed anywhere and run again it goes on: the Job, the machine and what is on the volume stay.
"""

import copy
import json
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import Conflict, KubernetesError, NotFound
from infra.jobs.observe_cluster import part
from infra.jobs.operation import POLL_S
from infra.jobs.progress import Journal, Progress, Report, silent
from infra.jobs.weights.copy import copy_problem
from infra.jobs.weights.machine import DownloadMachine
from infra.jobs.weights.places import VERIFIED_TAG, WeightPlace, jobs_path, read_places, verified_tag
from infra.jobs.weights.volumes import drop_tag, read_volume, set_tag
from infra.outputs import StackOutputs
from serving.errors import JobError
from serving.manifests.hydrate import HYDRATOR_CONTAINER
from serving.units import duration_text
from serving.weights.marker import UNPROVEN_OUTCOME

Mode = Literal["hydrate", "verify"]

PATIENCE_S = 900.0
"""How long the small machine may take to become a Ready node."""
_LEFT = re.compile(r"about ([\d,]+) (s|min) left")


@dataclass(frozen=True)
class WeightRequest:
    """What is wanted.

    - `zone`: by name or id; None is every weight volume, one after the other.
    - `again`: fill or check also what carries the tag already.
    - `sample`: for verify, how many files; 0 is all.
    - `patience_s`: how long the machine may take to join.
    """

    zone: str | None = None
    again: bool = False
    sample: int = 0
    patience_s: float = PATIENCE_S


def hydrate(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: WeightRequest | None = None,
) -> Report:
    """Fill every volume that is asked for, prove it, and tag it; a volume with the tag is done already.

    Raises ConfigurationError for an unknown zone, JobError where a volume cannot be filled, and botocore's and
    Kubernetes's errors.
    """
    return _run("hydrate", outputs, clients, clock, progress, request or WeightRequest())


def verify(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: WeightRequest | None = None,
) -> Report:
    """Read the volumes' files again and compare their SHA-256; a volume with a wrong file, sampled too, loses its tag.

    Raises as `hydrate` does.
    """
    return _run("verify", outputs, clients, clock, progress, request or WeightRequest(again=True))


def _run(
    mode: Mode, outputs: StackOutputs, clients: Clients, clock: Clock, progress: Progress, request: WeightRequest
) -> Report:
    journal = Journal(clock, progress)
    changed = False
    words: list[str] = []
    for place in read_places(outputs, clients, request.zone):
        work = _Work(mode, place, outputs, clients, clock, journal, request)
        did, said = work.run()
        changed = changed or did
        words.append(f"{place.zone}: {said}")
    return Report(f"weights {mode}", "verified", changed, "; ".join(words), journal.took_s, notes=tuple(journal.notes))


class _Work:
    """One volume."""

    def __init__(
        self,
        mode: Mode,
        place: WeightPlace,
        outputs: StackOutputs,
        clients: Clients,
        clock: Clock,
        journal: Journal,
        request: WeightRequest,
    ) -> None:
        self._mode = mode
        self._place = place
        self._outputs = outputs
        self._clients = clients
        self._clock = clock
        self._journal = journal
        self._request = request
        self._job = f"{place.name}-{mode}"
        self._machine = DownloadMachine(place, outputs, clients, clock, journal)

    def run(self) -> tuple[bool, str]:
        """Do it; whether anything was done, and the words."""
        volume = read_volume(self._clients, self._place.volume_id)
        if self._mode == "hydrate" and volume.verified and not self._request.again and not self._copy_wanted():
            # A run that was killed after the tag has left its machine behind.
            self._machine.lower()
            return False, f"{volume.volume_id} is {volume.verified} already"
        self._machine.check_holder(volume)
        existing = self._read_job()
        if existing is not None and _ended(existing) == "Failed":
            self._journal.say("volume", f"an earlier {self._job} failed; starting anew from what is on the volume")
            self._delete_job()
            existing = None
        if existing is not None and _ended(existing) == "Complete" and (self._mode == "verify" or volume.verified):
            self._delete_job()
            existing = None
        done = existing is not None and _ended(existing) == "Complete"
        began_s = self._clock.monotonic_s()
        if not done:
            self._machine.raise_up()
        if existing is None:
            if self._mode == "hydrate" and volume.verified:
                # Whatever comes of it, an interrupted run must not pass for a proven one.
                drop_tag(self._clients, volume.volume_id, VERIFIED_TAG)
            self._create_job()
        elif not done:
            self._journal.say("volume", f"{self._job} is running already; following it")
        try:
            words = self._follow()
        except JobError:
            # A cheap machine, but nobody needs it for a run that has failed.
            self._machine.lower()
            raise
        self._machine.lower()
        if not done and (cost := self._machine.cost_words(self._clock.monotonic_s() - began_s)):
            self._journal.note(cost)
        return True, words

    def _copy_wanted(self) -> bool:
        """Whether the stack wants a copy in S3 that is not whole yet; the Job of a whole volume then only copies."""
        uri = self._outputs.weights_copy_uri
        return bool(uri and copy_problem(self._clients, uri)[0])

    def _create_job(self) -> None:
        template = copy.deepcopy(self._place.template)
        container: dict[str, Any] = template["spec"]["template"]["spec"]["containers"][0]
        container["args"] = [self._mode]
        if self._mode == "verify" and self._request.sample:
            sample = {"name": "DORMOUSE_SAMPLE", "value": str(self._request.sample)}
            container["env"] = [*container.get("env", []), sample]
        metadata = {
            **template.get("metadata", {}),
            "name": self._job,
            # As `kubectl create job --from=cronjob/…` marks them.
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
        self._journal.say("volume", f"starting {self._job} for {self._place.volume_id} in {self._place.zone}")
        try:
            self._clients.kubernetes.create(jobs_path(self._outputs.namespace), body)
        except Conflict:
            self._journal.say("volume", f"{self._job} is running already; following it")

    def _follow(self) -> str:
        """Wait for the Job's end and tag the volume; raises JobError where it failed."""
        began_s = self._clock.monotonic_s()
        while True:
            job = self._read_job()
            if job is None:
                raise JobError(
                    f"Job {self._job} was deleted by somebody while it ran; what is on {self._place.volume_id} stays: "
                    f"run `dormouse weights {self._mode} --zone {self._place.zone}` again"
                )
            ended, pods = _ended(job), self._pods()
            if ended == "Complete":
                return self._succeeded(pods)
            if ended == "Failed":
                raise JobError(self._failed(job, pods))
            running = next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)
            if running is not None:
                began_s = self._clock.monotonic_s()
                self._tell(running["metadata"]["name"])
            else:
                waited_s = self._clock.monotonic_s() - began_s
                self._machine.tell(waited_s)
                if waited_s > self._request.patience_s:
                    self._delete_job()
                    raise JobError(self._stuck(pods, waited_s))
            self._clock.sleep(POLL_S)

    def _succeeded(self, pods: list[dict[str, Any]]) -> str:
        summary = _last_words(pods)
        if not summary.get("manifest_sha256"):
            # Its pod is gone with its words, so the volume itself is asked once more; that downloads nothing.
            self._delete_job()
            raise JobError(
                f"Job {self._job} ended well, but its pod is gone and with it the proof; run `dormouse weights "
                f"{self._mode} --zone {self._place.zone}` again: nothing is downloaded twice"
            )
        tag = verified_tag(str(summary.get("revision") or "none"), str(summary["manifest_sha256"]))
        if not (self._mode == "verify" and self._request.sample):
            set_tag(self._clients, self._place.volume_id, VERIFIED_TAG, tag)
        words = str(summary.get("message") or summary.get("outcome"))
        self._journal.say("done", words)
        return words

    def _failed(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> str:
        summary = _last_words(pods)
        if unproven := summary.get("outcome") == UNPROVEN_OUTCOME:
            # By a sample too: one wrong file is enough. A check that could not read proves nothing.
            drop_tag(self._clients, self._place.volume_id, VERIFIED_TAG)
        condition = _condition(job, "Failed") or {}
        why = summary.get("message") or condition.get("message") or condition.get("reason") or "no reason is left"
        lost = " The volume no longer counts as proven." if unproven else ""
        return (
            f"Job {self._job} failed: {why}.{lost} What was downloaded stays on {self._place.volume_id}; "
            f"`kubectl -n {self._outputs.namespace} logs job/{self._job}` shows more, and running "
            f"`dormouse weights hydrate --zone {self._place.zone}` again goes on from there"
        )

    def _stuck(self, pods: list[dict[str, Any]], waited_s: float) -> str:
        why = next((text for pod in pods if (text := _waiting(pod))), "") or self._machine.problem()
        return (
            f"the pod of {self._job} has not started for {duration_text(waited_s)}"
            f"{': ' + why if why else ''}. The Job is deleted and the machine goes; run again, or set "
            "dormouse:hydrateOn: gpu-node"
        )

    def _tell(self, pod_name: str) -> None:
        path = f"/api/v1/namespaces/{self._outputs.namespace}/pods/{pod_name}/log"
        try:
            lines = self._clients.kubernetes.get_text(path, container=HYDRATOR_CONTAINER, tailLines="1").splitlines()
        except KubernetesError:
            lines = []
        line = lines[-1] if lines else f"pod {pod_name} starts"
        found = _LEFT.search(line)
        left_s = None if found is None else float(found[1].replace(",", "")) * (60 if found[2] == "min" else 1)
        self._journal.say("hydrate", f"{self._place.zone}: {line}", left_s)

    def _read_job(self) -> dict[str, Any] | None:
        try:
            return self._clients.kubernetes.get(jobs_path(self._outputs.namespace, self._job))
        except NotFound:
            return None

    def _delete_job(self) -> None:
        try:
            path = jobs_path(self._outputs.namespace, self._job)
            self._clients.kubernetes.delete(path, propagation="Background")
        except NotFound:
            return

    def _pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self._outputs.namespace}/pods"
        return self._clients.kubernetes.list(path, label_selector=f"job-name={self._job}")


def _condition(job: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return next((one for one in _rows(job, "conditions") if one["type"] == kind and one["status"] == "True"), None)


def _ended(job: dict[str, Any]) -> Literal["Complete", "Failed", ""]:
    if _condition(job, "Complete"):
        return "Complete"
    return "Failed" if _condition(job, "Failed") else ""


def _last_words(pods: list[dict[str, Any]]) -> dict[str, Any]:
    """The summary that the newest pod left in its termination message; empty where none did."""
    for pod in sorted(pods, key=lambda one: one["metadata"].get("creationTimestamp") or "", reverse=True):
        for status in _rows(pod, "containerStatuses"):
            text = part(status, "state", "terminated").get("message")
            if not text:
                continue
            try:
                found: object = json.loads(text)
            except ValueError:
                found = {"message": text}
            if isinstance(found, dict):
                return cast("dict[str, Any]", found)
    return {}


def _waiting(pod: dict[str, Any]) -> str:
    """Why a pod has not started, in the words of the kubelet or the scheduler."""
    for status in _rows(pod, "containerStatuses"):
        waiting = part(status, "state", "waiting")
        if waiting.get("reason") not in (None, "ContainerCreating"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for condition in _rows(pod, "conditions"):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _rows(obj: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list below the object's status."""
    return part(obj, "status").get(key) or []

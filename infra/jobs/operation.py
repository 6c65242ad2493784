"""What wake and hibernate share: the lock around a job, and the few changes that a job makes."""

import contextlib
from collections.abc import Callable
from typing import Literal

from botocore.exceptions import ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code, is_throttled
from infra.jobs.clients import Clients
from infra.jobs.events import EventKind, publish
from infra.jobs.kubernetes_api import NotFound
from infra.jobs.lane_state import stack_state
from infra.jobs.lock import OperationLock
from infra.jobs.observation import Observation
from infra.jobs.observe import observe
from infra.jobs.observe_cluster import deployment_path, pod_path
from infra.jobs.progress import Journal, Report
from infra.outputs import Slot, StackOutputs
from serving.errors import DormouseError, JobError
from serving.manifests.labels import (
    ACCEPTING_LABEL,
    CHANGED_ANNOTATION,
    MOVING_ANNOTATION,
    REASON_ANNOTATION,
    STATE_ANNOTATION,
)
from serving.units import duration_text

POLL_S = 10.0
_BUSY_NODE_GROUP_S = 300.0
_STOP_S = 1200.0


class Operation:
    """One job at work on one stack; every change is made under its lock."""

    def __init__(
        self,
        outputs: StackOutputs,
        clients: Clients,
        clock: Clock,
        journal: Journal,
        lock: OperationLock | None,
    ) -> None:
        """Bundle what a job needs; `lock` is None only where Kubernetes is out of reach."""
        self.outputs = outputs
        self.clients = clients
        self.clock = clock
        self.journal = journal
        self.lock = lock

    def observe(self) -> Observation:
        """Look at the stack, and keep the lock."""
        self._keep()
        return observe(self.outputs, self.clients, self.clock)

    def pause(self, seconds: float = POLL_S) -> None:
        """Wait a little before looking again."""
        self.clock.sleep(seconds)

    def tell_state(self) -> None:
        """Say how far another job is."""
        seen = observe(self.outputs, self.clients, self.clock)
        state = stack_state(seen)
        self.journal.say(state.stage or str(state.kind), state.why, state.remaining_s)

    def set_desired(self, slot: Slot, desired: int) -> None:
        """Ask EKS for the nodes of `desired` replicas on the slot, one or none; waits while the node group is busy with another update.

        Raises botocore's ClientError, such as ResourceNotFoundException.
        """
        began_s = self.clock.monotonic_s()
        while True:
            self._keep(certainly=True)
            try:
                self.clients.eks.update_nodegroup_config(
                    clusterName=self.outputs.cluster_name,
                    nodegroupName=slot.node_group_name,
                    scalingConfig={"desiredSize": desired * slot.nodes},
                )
            except ClientError as error:
                throttled = is_throttled(error)
                busy = throttled or error_code(error) == "ResourceInUseException"
                if not busy or self.clock.monotonic_s() - began_s > _BUSY_NODE_GROUP_S:
                    raise
            else:
                return
            why = "AWS throttles this account's calls" if throttled else "it is busy with another update"
            self.journal.say("note", f"node group {slot.node_group_name} cannot be changed yet, {why}; waiting")
            self.pause(5.0)

    def scale(self, deployment_name: str, replicas: int) -> None:
        """Set the Deployment's replicas, and before it those of the workers that belong to it.

        In this order a job that is killed in between still finds the first machine's Deployment as it was, and does both
        again. Workers that are told to stop wait for the first machine by themselves.
        """
        workers = {
            worker
            for slot in self.outputs.slots
            if slot.deployment_name == deployment_name
            for worker in slot.worker_deployment_names
        }
        for name in (*sorted(workers), deployment_name):
            self._keep(certainly=True)
            path = deployment_path(self.outputs.namespace, name) + "/scale"
            self.clients.kubernetes.patch(path, {"spec": {"replicas": replicas}})

    def delete_pod(self, pod_name: str, grace_s: int) -> None:
        """Delete a pod whose containers get `grace_s` to end; one that has gone already is no fault."""
        self._keep(certainly=True)
        with contextlib.suppress(NotFound):
            self.clients.kubernetes.delete(pod_path(self.outputs.namespace, pod_name), grace_period_s=grace_s)

    def annotate(self, deployment_name: str, state: str, reason: str) -> None:
        """Leave the state and its reason on the Deployment, for people with kubectl and for other jobs."""
        annotations = {
            STATE_ANNOTATION: state,
            REASON_ANNOTATION: reason[:1000],
            CHANGED_ANNOTATION: self.clock.now().isoformat(timespec="seconds"),
        }
        self._keep(certainly=True)
        self.clients.kubernetes.patch(
            deployment_path(self.outputs.namespace, deployment_name), {"metadata": {"annotations": annotations}}
        )

    def mark_moving(self, deployment_name: str, origin: str, target: str) -> None:
        """Note on the Deployment that the stack moves from one candidate to another; empty names take the note off."""
        self._keep(certainly=True)
        note = f"{origin}>{target}" if origin else None
        self.clients.kubernetes.patch(
            deployment_path(self.outputs.namespace, deployment_name),
            {"metadata": {"annotations": {MOVING_ANNOTATION: note}}},
        )

    def settle_move(self, seen: Observation) -> None:
        """Take the notes of moves off, where there are any."""
        for view in seen.deployments:
            if view.moving:
                self.mark_moving(view.name, "", "")

    def tell(self, kind: EventKind, sentence: str, slot: Slot | None = None) -> None:
        """Publish a turn on the stack's topic; a failure is only noted."""
        if not self.outputs.topic_arn:
            return
        problem = publish(self.clients.sns, kind, sentence, self.outputs, self.clock, slot)
        if problem:
            self.journal.note(f"the event `{kind}` could not be published on {self.outputs.topic_arn}: {problem}")

    def accept(self, pod_name: str, accepting: bool) -> None:
        """Put the pod into the Service or take it out, without touching what it is doing; a pod that is gone is fine."""
        self._keep(certainly=True)
        labels = {ACCEPTING_LABEL: "true" if accepting else "false"}
        try:
            self.clients.kubernetes.patch(pod_path(self.outputs.namespace, pod_name), {"metadata": {"labels": labels}})
        except NotFound:
            return

    def stop_nodes(self, slots: tuple[Slot, ...], *, until_terminated: bool) -> None:
        """Lower the slots to 0 and wait until nothing of them is billed, or until every instance is terminated.

        Asks again where somebody raised a slot meanwhile. Raises JobError where instances are still there after
        20 minutes, and botocore's errors.
        """
        names = {slot.name for slot in slots}
        began_s = self.clock.monotonic_s()
        while True:
            views = [view for view in self.observe().slots if view.slot.name in names]
            for view in views:
                if view.desired:
                    self.journal.say("stop", f"lowering {view.slot.name} to 0 nodes")
                    self.set_desired(view.slot, 0)
            busy = [
                view
                for view in views
                if view.desired != 0 or view.paid or (until_terminated and view.instances) or view.status == "UPDATING"
            ]
            if not busy:
                return
            if self.clock.monotonic_s() - began_s > _STOP_S:
                left = "; ".join(
                    f"{view.slot.name}: desired {view.desired}, "
                    + (", ".join(f"{one.instance_id} {one.state}" for one in view.instances) or "no instance visible")
                    for view in busy
                )
                raise JobError(
                    f"not everything has stopped after {duration_text(_STOP_S)}: {left}; look at the node group in the "
                    "EKS console, then run again"
                )
            ids = ", ".join(f"{one.instance_id} ({one.state})" for view in busy for one in view.instances)
            if ids:
                self.journal.say("stop", f"waiting for the end of {ids}")
            self.pause(5.0)

    def _keep(self, certainly: bool = False) -> None:
        if self.lock is not None:
            self.lock.keep(certainly)


def require_readable(seen: Observation) -> None:
    """Raise JobError where a job would act on what it cannot see."""
    blind = any(view.desired is None for view in seen.slots) or any(
        view.replicas is None or view.pods is None for view in seen.deployments
    )
    if blind:
        reasons = "\n".join(f"  - {one.what}: {one.reason}" for one in seen.unknown)
        raise JobError(f"parts of the stack cannot be read, so nothing was changed:\n{reasons}")


def run_locked(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    journal: Journal,
    goal: str,
    deadline_s: float,
    work: Callable[[Operation], Report],
    on_other: Literal["wait", "refuse", "take"] = "wait",
) -> Report:
    """Run `work` under the stack's lock and give the lock back in any case.

    Raises what `work` raises; JobError where a job with the same goal was followed and failed.
    """
    lock = OperationLock(clients.kubernetes, outputs.namespace, clock, goal)
    operation = Operation(outputs, clients, clock, journal, lock)
    ok: bool | None = None
    words = ""
    try:
        watcher = Operation(outputs, clients, clock, journal, None)
        outcome = lock.acquire(journal, deadline_s, watcher.tell_state, on_other)
        if outcome is not None and not outcome.ok:
            raise JobError(f"{goal} by {outcome.holder}, which was followed, failed: {outcome.words}")
        report = work(operation)
    except DormouseError as error:
        ok, words = False, str(error)
        raise
    else:
        ok, words = True, report.sentence
        return report
    finally:
        lock.release(ok, words)


def hourly(usd_per_hour: float | None) -> str:
    """A price for people; says so where it is unknown."""
    return "an unknown price" if usd_per_hour is None else f"${usd_per_hour:,.2f} an hour"

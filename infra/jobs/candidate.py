"""One capacity candidate under trial: ask for its node, wait for it, start its pod."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.capacity import FailureKind, LaunchFailure, Refusal
from infra.jobs.observation import LOADING, PENDING, READY, TERMINATING, Observation, PodView, SlotView
from infra.jobs.operation import POLL_S, Operation, hourly
from infra.jobs.state import loading_remaining_s, slot_serving
from infra.outputs import Slot
from serving.errors import JobError
from serving.units import duration_text

NODE_JOIN_S = 900.0
"""How long an instance may run before its node is Ready, in seconds; then it is taken for broken."""

_STUCK_S = 900.0
_LOWERED_GRACE_S = 60.0
_RESTARTS = 3
_DEAD_STATUSES = ("missing", "DELETING", "CREATE_FAILED", "DELETE_FAILED")
_REFUSING_CODES = ("ResourceNotFoundException", "InvalidParameterException", "InvalidRequestException")


class Candidate:
    """A slot under trial within one operation; `deadline_s` is the clock's monotonic time at which the job gives up."""

    def __init__(self, operation: Operation, slot: Slot, deadline_s: float) -> None:
        """Start counting this candidate's time now."""
        self._operation = operation
        self._journal = operation.journal
        self._slot = slot
        self._deadline_s = deadline_s
        self._began_s = operation.clock.monotonic_s()

    @property
    def _waited_s(self) -> float:
        return self._operation.clock.monotonic_s() - self._began_s

    def _refusal(self, kind: str, words: str) -> Refusal:
        return Refusal(self._slot.name, kind, words, self._waited_s)

    def bring_node(self) -> Refusal | None:
        """Have one Ready node: None when it is there, or why this candidate gives none.

        A node that was asked for earlier, or runs already, is taken as it is. Leaves lowering to the caller.
        Raises JobError past the deadline, or where somebody lowers the slot meanwhile.
        """
        slot, operation = self._slot, self._operation
        view = operation.observe().slot(slot.name)
        # Told apart by id, not by time: this machine's clock may differ from AWS's.
        old = {failure.activity_id for failure in view.failures}
        if not view.is_up:
            words = self._reservation_problem()
            if words:
                return self._refusal(FailureKind.RESERVATION, words)
        asking = f"asking EC2 for one {slot.instance_type} ({slot.purchase}) in {slot.zone}"
        self._journal.say("capacity", asking)
        operation.annotate(slot.deployment_name, "waking", f"{asking}, slot {slot.name}")
        if not view.desired:
            try:
                operation.set_desired(slot, 1)
            except ClientError as error:
                if error_code(error) not in _REFUSING_CODES:
                    raise
                return self._refusal(
                    FailureKind.CONFIGURATION, f"EKS refused to raise the node group: {error_message(error)}"
                )
        while True:
            seen = operation.observe()
            view = seen.slot(slot.name)
            if view.ready_instance is not None:
                self._journal.say("node", f"node {view.ready_instance.node_name} is Ready in {slot.zone}")
                return None
            refusal = self._node_refusal(view, seen, [one for one in view.failures if one.activity_id not in old])
            if refusal is not None:
                return refusal
            self._check_deadline(f"no node of {slot.name} is Ready")
            operation.pause(POLL_S)

    def _node_refusal(self, view: SlotView, seen: Observation, failures: list[LaunchFailure]) -> Refusal | None:
        """Why to give up on the node now, or None to go on waiting; tells how far it is."""
        slot = self._slot
        if view.status in _DEAD_STATUSES:
            return self._refusal(FailureKind.CONFIGURATION, f"node group {slot.node_group_name} is {view.status}")
        if view.paid:
            instance = view.paid[0]
            age_s = (seen.at - instance.launched_at).total_seconds()
            if age_s > NODE_JOIN_S:
                return self._refusal(
                    "node",
                    f"instance {instance.instance_id} ran for {duration_text(age_s)} and its node never became Ready",
                )
            self._journal.say("node", f"instance {instance.instance_id} runs; waiting for its node to become Ready")
            return None
        if failures and not failures[0].kind.may_heal:
            return self._refusal(failures[0].kind, failures[0].message)
        if view.status == "ACTIVE" and view.desired == 0 and self._waited_s > _LOWERED_GRACE_S:
            raise JobError(
                f"somebody set {slot.node_group_name} back to 0 nodes while it was being woken (a budget stop, an "
                "expiry, a person); nothing is paid for: find out why before you wake it again"
            )
        if self._waited_s > slot.patience_s:
            if failures:
                return self._refusal(failures[0].kind, failures[0].message)
            return self._refusal(FailureKind.OTHER, "no instance came, and Auto Scaling gave no reason")
        refused = f"; EC2 refuses so far: {failures[0].message}" if failures else ""
        self._journal.say(
            "capacity",
            f"waiting for one {slot.instance_type} ({slot.purchase}) in {slot.zone}, at most "
            f"{duration_text(slot.patience_s)}{refused}",
        )
        return None

    def _reservation_problem(self) -> str:
        """Why a Capacity Block gives nothing now; empty where it may, or where it cannot be read."""
        reservation_id = self._slot.reservation_id
        if self._slot.purchase != "capacity-block" or not reservation_id:
            return ""
        try:
            found: list[dict[str, Any]] = self._operation.clients.ec2.describe_capacity_reservations(
                CapacityReservationIds=[reservation_id]
            )["CapacityReservations"]
        except ClientError as error:
            if error_code(error) == "InvalidCapacityReservationId.NotFound":
                return f"capacity block {reservation_id} does not exist in this account and region"
            return ""
        except BotoCoreError:
            return ""
        if not found:
            return f"capacity block {reservation_id} does not exist in this account and region"
        block = found[0]
        start, end = block.get("StartDate"), block.get("EndDate")
        if block["State"] == "active":
            return ""
        if block["State"] in ("scheduled", "payment-pending", "assessing") and start:
            return f"capacity block {reservation_id} is {block['State']} and starts {start:%Y-%m-%d %H:%M} UTC"
        ended = f" (end {end:%Y-%m-%d %H:%M} UTC)" if end else ""
        return f"capacity block {reservation_id} is {block['State']}{ended}"

    def start_pod(self) -> Refusal | None:
        """Scale the slot's Deployment to 1 and wait until its pod is Ready: None then, or that the node was lost.

        Raises JobError where the pod cannot start, or past the deadline; the node then stays for looking at.
        """
        slot, operation = self._slot, self._operation
        pending_since_s: float | None = None
        while True:
            seen = operation.observe()
            view, deployment = seen.slot(slot.name), seen.deployment(slot.deployment_name)
            if view.desired is not None and not view.paid:
                return self._refusal("node", "the node was taken back before the model was ready")
            if deployment.replicas == 0:
                self._journal.say("scheduling", f"starting the pod of {slot.deployment_name}")
                operation.annotate(slot.deployment_name, "waking", f"node of {slot.name} is Ready; the model loads")
                operation.scale(slot.deployment_name, 1)
                continue
            node_name = view.ready_instance.node_name if view.ready_instance else None
            # A pod on another node was left behind by a node that is gone.
            pods = [
                pod
                for pod in deployment.pods or ()
                if pod.phase in (PENDING, LOADING, READY) and (not node_name or pod.node_name in (None, node_name))
            ]
            pod = pods[-1] if pods else None
            if pod is not None and pod.phase == READY:
                self._accept(pod, seen)
                return None
            if pod is not None and pod.phase == LOADING:
                pending_since_s = None
                self._tell_loading(pod, seen)
            else:
                now_s = operation.clock.monotonic_s()
                pending_since_s = now_s if pending_since_s is None else pending_since_s
                self._tell_pending(pod, deployment.pods, now_s - pending_since_s)
            self._check_deadline(f"pod of {slot.deployment_name} is not Ready", view)
            operation.pause(POLL_S)

    def _accept(self, pod: PodView, seen: Observation) -> None:
        where = slot_serving(pod, seen)
        if where is not None and where.slot.zone != self._slot.zone:
            raise JobError(
                f"pod {pod.name} runs in {where.slot.zone}, but the weights of {self._slot.name} are in "
                f"{self._slot.zone}: the volume's zone affinity is missing; run `pulumi up`"
            )
        if not pod.accepting:
            self._operation.accept(pod.name, True)
        self._journal.say("ready", f"pod {pod.name} is Ready")
        self._operation.annotate(self._slot.deployment_name, "awake", f"woken on slot {self._slot.name}")

    def _tell_loading(self, pod: PodView, seen: Observation) -> None:
        if pod.blocked and pod.restarts >= _RESTARTS:
            raise JobError(self._stuck(f"vLLM has failed {pod.restarts} times ({pod.reason})", pod))
        again = f" (start {pod.restarts + 1})" if pod.restarts else ""
        self._journal.say("loading", f"vLLM loads the model in pod {pod.name}{again}", loading_remaining_s(pod, seen))

    def _tell_pending(self, pod: PodView | None, pods: tuple[PodView, ...] | None, waited_s: float) -> None:
        if pod is not None and pod.blocked and pod.restarts >= _RESTARTS:
            raise JobError(self._stuck(f"vLLM has failed {pod.restarts} times ({pod.reason})", pod))
        if waited_s > _STUCK_S:
            why = pod.reason if pod else "the Deployment made no pod; look at its events"
            raise JobError(self._stuck(f"the pod has not started for {duration_text(waited_s)}: {why}", pod))
        if pod is not None:
            self._journal.say("scheduling", f"pod {pod.name} starts" + (f": {pod.reason}" if pod.reason else ""))
        elif pods is None:
            self._journal.say("scheduling", "the pod cannot be seen at the moment")
        elif any(one.phase == TERMINATING for one in pods):
            self._journal.say("scheduling", "an earlier pod is still stopping")
        else:
            self._journal.say("scheduling", f"waiting for the pod of {self._slot.deployment_name}")

    def _stuck(self, what: str, pod: PodView | None) -> str:
        log = (
            f" `kubectl -n {self._operation.outputs.namespace} logs {pod.name} -c vllm --previous` shows more;"
            if pod
            else ""
        )
        return (
            f"{what}. The node of {self._slot.name} stays up for looking at, at {hourly(self._slot.usd_per_hour)};"
            f"{log} `dormouse hibernate --force` stops it"
        )

    def _check_deadline(self, what: str, view: SlotView | None = None) -> None:
        if self._operation.clock.monotonic_s() <= self._deadline_s:
            return
        paid = (
            f"The node stays up, at {hourly(self._slot.usd_per_hour)}: `dormouse wake` goes on waiting, "
            "`dormouse hibernate --force` stops it"
            if view is not None and view.paid
            else "`dormouse wake` goes on from here, `dormouse hibernate --force` gives up"
        )
        raise JobError(f"time is up and {what}. {paid}")

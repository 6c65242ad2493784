"""One capacity candidate under trial: ask for its node, wait for it, start its pod."""

from datetime import datetime

from botocore.exceptions import ClientError

from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.capacity import FailureKind, LaunchFailure, Refusal
from infra.jobs.observation import LOADING, PENDING, READY, TERMINATING, Observation, PodView, SlotView
from infra.jobs.operation import POLL_S, Operation, hourly
from infra.jobs.state import loading_remaining_s, slot_serving
from infra.jobs.volume_speed import raise_volumes
from infra.jobs.weight_volumes import free_if_stuck, holder_words
from infra.jobs.weights.copy import copy_problem
from infra.outputs import Slot
from serving.errors import JobError
from serving.units import duration_text

NODE_JOIN_S = 900.0
"""How long an instance may run before its node is Ready, in seconds; then it is taken for broken."""

UNPROVEN = "weights"
"""The kind of a refusal by the weights-check: the volume's contents, which every slot of its zone shares."""
NO_COPY = "copy"
"""The kind of a refusal before any machine is asked for: the copy in S3, from which the slot loads, is not whole."""

_JOIN_HINT = (
    "What keeps a node away: no route from its subnet to the cluster's endpoint, ECR and EC2; a node role without an "
    "access entry; an image that does not boot. `aws ec2 get-console-output --instance-id {}` shows how it started"
)
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
        self._forced = False
        self._raised = False

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
        seen = operation.observe()
        view = seen.slot(slot.name)
        # Told apart by id, not by time: this machine's clock may differ from AWS's.
        old = {failure.activity_id for failure in view.failures}
        if not view.is_up:
            words = self._block_problem(view, seen.at)
            if words:
                return self._refusal(FailureKind.RESERVATION, words)
            words = self._copy_problem()
            if words:
                return self._refusal(NO_COPY, words)
        machines = "one" if slot.nodes == 1 else f"{slot.nodes} ×"
        asking = f"asking EC2 for {machines} {slot.instance_type} ({slot.purchase}) in {slot.zone}"
        self._journal.say("capacity", asking)
        operation.annotate(slot.deployment_name, "waking", f"{asking}, slot {slot.name}")
        if (view.desired or 0) < slot.nodes:
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
            if view.paid:
                self._raise_volumes()
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
            return self._refusal(
                FailureKind.CONFIGURATION, f"node group {slot.node_group_name} is {view.status}{_issues(view)}"
            )
        if view.paid:
            instance = view.paid[0]
            age_s = (seen.at - instance.launched_at).total_seconds()
            if age_s > NODE_JOIN_S:
                return self._refusal(
                    "node",
                    f"instance {instance.instance_id} ran for {duration_text(age_s)} and its node never became Ready"
                    f"{_issues(view)}; it is given back. {_JOIN_HINT.format(instance.instance_id)}",
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
            return self._refusal(FailureKind.OTHER, f"no instance came, and Auto Scaling gave no reason{_issues(view)}")
        refused = f"; EC2 refuses so far: {failures[0].message}" if failures else ""
        self._journal.say(
            "capacity",
            f"waiting for one {slot.instance_type} ({slot.purchase}) in {slot.zone}, at most "
            f"{duration_text(slot.patience_s)}{refused}{_issues(view)}",
        )
        return None

    def _raise_volumes(self) -> None:
        """Once there is a machine, which takes minutes to join: before, a refusal would have used up EBS's changes."""
        if not self._raised:
            self._raised = True
            raise_volumes(self._operation, self._slot)

    def _copy_problem(self) -> str:
        """Why the slot's pods would find nothing to load; empty where they would, or where that cannot be told."""
        if not self._slot.loads_from_s3:
            return ""
        uri = self._operation.outputs.weights_copy_uri
        words, unread = copy_problem(self._operation.clients, uri)
        if unread:
            self._journal.note(f"whether the copy of the weights at {uri} is whole could not be checked: {unread}")
        return words

    def _block_problem(self, view: SlotView, at: datetime) -> str:
        """Why a Capacity Block is not asked now; empty where it may give a node, or where it cannot be read."""
        block = view.block
        if block is None:
            return ""
        if block.is_open(at):
            return block.too_short(at, self._operation.outputs.planned_load_s)
        return block.words(at)

    def start_pod(self) -> Refusal | None:
        """Scale the slot's Deployment to 1 and wait until its pod is Ready: None then, or that the node was lost.

        A volume whose weights are not proven is a refusal too: no waiting makes it start, and the node costs by the
        hour. Raises JobError where the pod cannot start otherwise, or past the deadline; the node then stays for
        looking at.
        """
        slot, operation = self._slot, self._operation
        pending_since_s: float | None = None
        while True:
            seen = operation.observe()
            view, deployment = seen.slot(slot.name), seen.deployment(slot.deployment_name)
            if view.desired is not None and len(view.paid) < slot.nodes:
                return self._refusal("node", "the node was taken back before the model was ready")
            noticed = next((one for one in view.paid if one.notice), None)
            if noticed is not None:
                return self._refusal(
                    "node",
                    f"EC2 takes spot instance {noticed.instance_id} back ({noticed.notice}) before the model is ready",
                )
            if deployment.replicas == 0:
                self._journal.say("scheduling", f"starting the pod of {slot.deployment_name}")
                operation.annotate(slot.deployment_name, "waking", f"node of {slot.name} is Ready; the model loads")
                operation.scale(slot.deployment_name, 1)
                continue
            node_names = {one.node_name for one in view.paid} if view.ready_instance else set[str | None]()
            # A pod on another node was left behind by a node that is gone.
            pods = [
                pod
                for pod in deployment.pods or ()
                if pod.phase in (PENDING, LOADING, READY) and (not node_names or pod.node_name in {None, *node_names})
            ]
            pod = pods[-1] if pods else None
            if pod is not None and pod.unproven:
                return self._refusal(
                    UNPROVEN, f"{slot.volume_id} is refused, so the node is given back; {pod.unproven}"
                )
            if pod is not None and pod.phase == READY:
                self._accept(pod, seen)
                return None
            if pod is not None and pod.phase == LOADING:
                pending_since_s = None
                self._tell_loading(pod, seen)
            else:
                now_s = operation.clock.monotonic_s()
                pending_since_s = now_s if pending_since_s is None else pending_since_s
                held = self._free_volume(seen, view)
                self._tell_pending(pod, deployment.pods, now_s - pending_since_s, held)
            self._check_deadline(f"pod of {slot.deployment_name} is not Ready", view)
            operation.pause(POLL_S)

    def _free_volume(self, seen: Observation, view: SlotView) -> str:
        """Free the slot's volume from a machine that is gone, once; says who else holds it, or nothing."""
        volume = next((one for one in seen.volumes if one.volume_id == self._slot.volume_id), None)
        if volume is not None and volume.is_stuck and not self._forced:
            self._forced = True
            free_if_stuck(self._operation, volume)
        return holder_words(volume, view.ready_instance.instance_id if view.ready_instance else None)

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

    def _tell_pending(
        self, pod: PodView | None, pods: tuple[PodView, ...] | None, waited_s: float, held: str = ""
    ) -> None:
        if pod is not None and pod.blocked and pod.restarts >= _RESTARTS:
            raise JobError(self._stuck(f"vLLM has failed {pod.restarts} times ({pod.reason})", pod))
        if waited_s > _STUCK_S:
            why = held or (pod.reason if pod else "the Deployment made no pod; look at its events")
            raise JobError(self._stuck(f"the pod has not started for {duration_text(waited_s)}: {why}", pod))
        if pod is not None:
            reason = "; ".join(part for part in (pod.reason, held) if part)
            self._journal.say("scheduling", f"pod {pod.name} starts" + (f": {reason}" if reason else ""))
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


def _issues(view: SlotView) -> str:
    """What EKS says is wrong with the node group, as an ending; empty where it says nothing."""
    return f"; EKS says {'; '.join(view.issues)}" if view.issues else ""

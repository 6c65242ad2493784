"""What a job sees when it looks: plain frozen values, with None where something could not be read."""

from dataclasses import dataclass, field
from datetime import datetime

from infra.jobs.block_window import BlockWindow
from infra.jobs.capacity import LaunchFailure
from infra.outputs import Slot

# EC2 bills an instance in these states; `shutting-down` and `stopping` are free of charge but still on their way out.
_PAID_STATES = ("pending", "running")

PENDING, LOADING, READY, TERMINATING, FAILED = "pending", "loading", "ready", "terminating", "failed"


@dataclass(frozen=True)
class Unknown:
    """A part that could not be read: `what`, such as `pods of vllm-us-east-2a`, and the `reason` in words."""

    what: str
    reason: str


@dataclass(frozen=True)
class InstanceView:
    """An EC2 instance that is not terminated.

    - `state`: EC2's word: pending, running, stopping, stopped, shutting-down.
    - `lifecycle`: on-demand, spot or capacity-block.
    - `node_name`, `node_ready`: its Kubernetes node; None where none has joined or nodes could not be read.
    - `notice`: EC2's word where it takes a spot instance back, such as `marked-for-termination`; else None.
    - `cordoned`: whether the node takes no new pods; EKS cordons a node that EC2 is about to take.
    """

    instance_id: str
    state: str
    lifecycle: str
    zone: str
    launched_at: datetime
    node_name: str | None = None
    node_ready: bool | None = None
    notice: str | None = None
    cordoned: bool = False

    @property
    def is_paid(self) -> bool:
        """Whether EC2 bills it now."""
        return self.state in _PAID_STATES


@dataclass(frozen=True)
class SlotView:
    """One capacity candidate as it stands.

    - `status`: EKS's word for the node group; `missing` where it does not exist, None where it could not be read.
    - `desired`: nodes asked for, or None likewise.
    - `failures`: failed launches that Auto Scaling still remembers, newest first.
    - `issues`: what EKS says is wrong with the node group, `Code: message` each.
    - `block`: the window of its Capacity Block; None for other purchases, or where it could not be read.
    """

    slot: Slot
    status: str | None
    desired: int | None
    instances: tuple[InstanceView, ...] = ()
    failures: tuple[LaunchFailure, ...] = ()
    issues: tuple[str, ...] = ()
    block: BlockWindow | None = None

    @property
    def paid(self) -> tuple[InstanceView, ...]:
        """The instances that are billed now."""
        return tuple(one for one in self.instances if one.is_paid)

    @property
    def is_up(self) -> bool:
        """Whether a node is asked for or billed."""
        return bool(self.desired) or bool(self.paid)

    @property
    def ready_instance(self) -> InstanceView | None:
        """The billed instance whose node is Ready; with several machines to a replica only once all of them are."""
        ready = [one for one in self.paid if one.node_ready]
        return ready[0] if len(ready) >= self.slot.nodes else None


@dataclass(frozen=True)
class Requests:
    """What vLLM is doing: requests `running` and `waiting` in its queue."""

    running: int
    waiting: int

    @property
    def total(self) -> int:
        """Requests that would be cut by a stop now."""
        return self.running + self.waiting


@dataclass(frozen=True)
class PodView:
    """One pod of vLLM.

    - `phase`: pending (no container runs yet), loading (vLLM starts), ready, terminating or failed.
    - `reason`: why it is not ready, in the words of the scheduler or the kubelet; may be empty.
    - `since`: when this phase began, or None.
    - `accepting`: whether the Service may send requests to it.
    - `blocked`: the kubelet's word for a start that will not get better by waiting alone, such as ImagePullBackOff.
    - `restarts`: of the vllm container.
    - `unproven`: what the weights-check said as it refused the pod's volume; empty where it did not.
    - `planned_load_s`: estimated seconds from start to Ready.
    - `requests`: None where the metrics could not be read; `requests_unknown` then says why.
    """

    name: str
    phase: str
    reason: str = ""
    node_name: str | None = None
    since: datetime | None = None
    accepting: bool = True
    blocked: str | None = None
    restarts: int = 0
    planned_load_s: float = 0.0
    grace_period_s: float = 30.0
    requests: Requests | None = None
    requests_unknown: str = ""
    unproven: str = ""


@dataclass(frozen=True)
class DeploymentView:
    """The Deployment of one zone.

    - `replicas`: pods asked for, or None where it could not be read.
    - `state`, `reason`, `changed_at`: the annotations that the last job left, empty where none did.
    - `pods`: None where they could not be read.
    - `moving`: `from>to` while a move from this Deployment is under way, else empty.
    """

    name: str
    zone: str
    replicas: int | None
    pods: tuple[PodView, ...] | None
    state: str = ""
    reason: str = ""
    changed_at: str = ""
    moving: str = ""


@dataclass(frozen=True)
class VolumeView:
    """A weight volume.

    - `state`: EC2's word: available, in-use, …; None unknown, `missing` where it does not exist.
    - `attached_to`: the instance that holds it, or None.
    - `attachment`: EC2's word for that: attaching, attached, detaching, busy; None where nothing holds it.
    - `holder_state`: EC2's state of the holder where it is no live instance of the stack: `terminated`, or `missing`
      once EC2 has forgotten it; None where the holder lives or could not be read.
    """

    volume_id: str
    zone: str
    state: str | None
    attached_to: str | None = None
    attachment: str | None = None
    holder_state: str | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether it hangs on an instance that is gone, so that no other node can mount it."""
        return self.attached_to is not None and self.holder_state in ("terminated", "missing")


@dataclass(frozen=True)
class OperationView:
    """A job that holds the environment's lock: what it is for, who runs it, when it last gave a sign of life."""

    goal: str
    holder: str
    renewed_at: datetime


@dataclass(frozen=True)
class Observation:
    """Everything at one moment; `slots` in the order of preference."""

    at: datetime
    slots: tuple[SlotView, ...]
    deployments: tuple[DeploymentView, ...]
    volumes: tuple[VolumeView, ...]
    operation: OperationView | None = None
    unknown: tuple[Unknown, ...] = field(default=())

    def slot(self, name: str) -> SlotView:
        """The candidate of that name; KeyError where there is none."""
        for view in self.slots:
            if view.slot.name == name:
                return view
        raise KeyError(name)

    def deployment(self, name: str) -> DeploymentView:
        """The Deployment of that name; KeyError where there is none."""
        for view in self.deployments:
            if view.name == name:
                return view
        raise KeyError(name)

    @property
    def pods(self) -> tuple[PodView, ...]:
        """Every pod that could be read, of all zones, without those that failed for good."""
        return tuple(pod for view in self.deployments for pod in view.pods or () if pod.phase != FAILED)

    @property
    def paid(self) -> tuple[tuple[Slot, InstanceView], ...]:
        """Every billed instance with its slot."""
        return tuple((view.slot, one) for view in self.slots for one in view.paid)

    @property
    def notices(self) -> tuple[tuple[Slot, InstanceView], ...]:
        """Every billed instance that EC2 is about to take back, with its slot."""
        return tuple((slot, one) for slot, one in self.paid if one.notice)

    @property
    def usd_per_hour(self) -> float | None:
        """What the billed instances cost now; None where a price is unknown or instances could not be read."""
        if any(view.desired is None for view in self.slots):
            return None
        # A slot's price is that of all its machines.
        prices = [None if slot.usd_per_hour is None else slot.usd_per_hour / slot.nodes for slot, _ in self.paid]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

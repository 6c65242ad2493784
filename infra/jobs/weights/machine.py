"""The machine that downloads: raised for a Job, lowered after it, and never while another Job needs it."""

from typing import Any

from botocore.exceptions import ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code
from infra.jobs.clients import Clients
from infra.jobs.observe_cluster import part
from infra.jobs.progress import Journal
from infra.jobs.weights.places import WeightPlace, jobs_path
from infra.jobs.weights.volumes import Volume
from infra.outputs import StackOutputs
from infra.pricing import machine_price
from serving.errors import JobError
from serving.hydrate_machine import hydrate_machine
from serving.manifests.hydrate import COMPONENT_LABEL, HYDRATOR_COMPONENT
from serving.units import duration_text

_BUSY_S = 300.0
_GROUP_TAG = "eks:nodegroup-name"


class DownloadMachine:
    """The small node group of one volume's zone, or the zone's GPU node where there is none."""

    def __init__(
        self, place: WeightPlace, outputs: StackOutputs, clients: Clients, clock: Clock, journal: Journal
    ) -> None:
        """Ask nothing yet."""
        self._place = place
        self._outputs = outputs
        self._clients = clients
        self._clock = clock
        self._journal = journal

    @property
    def _on_gpu_node(self) -> bool:
        return not self._place.node_group

    def check_holder(self, volume: Volume) -> None:
        """Raise JobError where another machine holds the volume: an EBS volume attaches to one at a time."""
        if volume.attached_to is None:
            return
        found = self._clients.ec2.describe_instances(InstanceIds=[volume.attached_to])["Reservations"]
        tags = {tag["Key"]: tag["Value"] for one in found for held in one["Instances"] for tag in held.get("Tags", [])}
        group = tags.get(_GROUP_TAG, "")
        slots = [slot for slot in self._outputs.slots if slot.node_group_name == group]
        if group == self._place.node_group or (self._on_gpu_node and slots):
            return
        who = (
            f"the GPU node of {slots[0].name}" if slots else f"node group {group}" if group else "a machine of no group"
        )
        raise JobError(
            f"{volume.volume_id} is attached to {volume.attached_to}, {who}, and a volume attaches to one machine at a "
            "time; nothing was changed: run `dormouse hibernate` first, or set dormouse:hydrateOn: gpu-node"
        )

    def raise_up(self) -> None:
        """Ask for one machine; with a GPU node that is there already nothing is asked.

        Raises JobError where the GPU node is to do the work and none is up: it costs too much to be raised by the way.
        """
        if self._on_gpu_node:
            names = [slot.node_group_name for slot in self._outputs.slots if slot.zone == self._place.zone]
            if not any(self._desired(name) for name in names):
                raise JobError(
                    f"hydrateOn is gpu-node and no GPU node is up in {self._place.zone}: raise one of "
                    f"{', '.join(names)} to 1 (`aws eks update-nodegroup-config`) while its Deployment stands at 0, or "
                    "set dormouse:hydrateOn: cheap-node"
                )
            return
        if self._desired(self._place.node_group) < 1:
            self._journal.say("node", f"asking for one machine of {self._place.node_group} in {self._place.zone}")
            self._set_desired(1)

    def lower(self) -> None:
        """Let the small machine go, unless another Job of this zone still runs."""
        if self._on_gpu_node or self._desired(self._place.node_group) == 0 or self._others_run():
            return
        self._journal.say("stop", f"lowering {self._place.node_group} to 0")
        self._set_desired(0)

    def cost_words(self, took_s: float) -> str:
        """What the run cost, or that its price is unknown; the GPU node's is what it costs anyway."""
        if self._on_gpu_node:
            return ""
        types: list[str] = self._describe(self._place.node_group).get("instanceTypes") or []
        name = types[0] if types else hydrate_machine().instance_type
        price = machine_price(name, "on-demand", self._outputs.region)
        hours = f"one {name} ran for {duration_text(took_s)}"
        if price is None:
            return f"{hours}; its price in {self._outputs.region} is unknown to this release"
        return f"{hours}, about ${took_s / 3600 * price.usd:,.2f} ({price.origin()})"

    def tell(self, waited_s: float) -> None:
        """Say what is waited for."""
        where = "the GPU node" if self._on_gpu_node else self._place.node_group
        self._journal.say(
            "node", f"waiting for {where} and its pod in {self._place.zone}, {duration_text(waited_s)} so far"
        )

    def problem(self) -> str:
        """What EKS says is wrong with the node group; may be empty."""
        if self._on_gpu_node:
            return ""
        issues: list[dict[str, Any]] = self._describe(self._place.node_group).get("health", {}).get("issues", [])
        return "; ".join(f"{one.get('code')}: {one.get('message')}" for one in issues)

    def _others_run(self) -> bool:
        selector = f"{COMPONENT_LABEL}={HYDRATOR_COMPONENT}"
        jobs = self._clients.kubernetes.list(jobs_path(self._outputs.namespace), label_selector=selector)
        return any(
            part(job, "status").get("active") and self._place.name in str(job["metadata"]["name"]) for job in jobs
        )

    def _describe(self, name: str) -> dict[str, Any]:
        try:
            group: dict[str, Any] = self._clients.eks.describe_nodegroup(
                clusterName=self._outputs.cluster_name, nodegroupName=name
            )["nodegroup"]
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise JobError(f"node group {name} does not exist; `pulumi up` makes it") from error
            raise
        return group

    def _desired(self, name: str) -> int:
        return int(self._describe(name)["scalingConfig"]["desiredSize"])

    def _set_desired(self, desired: int) -> None:
        began_s = self._clock.monotonic_s()
        while True:
            try:
                self._clients.eks.update_nodegroup_config(
                    clusterName=self._outputs.cluster_name,
                    nodegroupName=self._place.node_group,
                    scalingConfig={"desiredSize": desired},
                )
            except ClientError as error:
                busy = error_code(error) == "ResourceInUseException"
                if not busy or self._clock.monotonic_s() - began_s > _BUSY_S:
                    raise
            else:
                return
            self._clock.sleep(5.0)

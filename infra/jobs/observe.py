"""Look at a stack: AWS here, Kubernetes in `observe_cluster`; what cannot be read is `Unknown`, never a crash."""

from collections.abc import Callable
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message, error_operation
from infra.jobs.capacity import LaunchFailure, launch_failures
from infra.jobs.clients import Clients
from infra.jobs.observation import InstanceView, Observation, SlotView, Unknown, VolumeView
from infra.jobs.observe_cluster import NodeView, observe_deployments, observe_nodes, observe_operation
from infra.outputs import Slot, StackOutputs
from serving.errors import DormouseError

T = TypeVar("T")
_ALIVE = ["pending", "running", "stopping", "stopped", "shutting-down"]


class Reader:
    """Runs reads one by one and keeps the reason of each that fails."""

    def __init__(self) -> None:
        """Nothing is unknown yet."""
        self.unknown: list[Unknown] = []

    def read(self, what: str, call: Callable[[], T]) -> T | None:
        """The call's value, or None after noting why not."""
        try:
            return call()
        except (ClientError, BotoCoreError, DormouseError) as error:
            self.unknown.append(Unknown(what, reason_of(error)))
            return None


def reason_of(error: Exception) -> str:
    """A failed call in one line."""
    if isinstance(error, ClientError):
        return f"{error_operation(error)} answered {error_code(error)}: {error_message(error)}".rstrip(": ")
    return " ".join(str(error).split())


def observe(outputs: StackOutputs, clients: Clients, clock: Clock) -> Observation:
    """Read everything that a job or a person needs to know of the stack now.

    Takes no lock and changes nothing. Raises nothing for parts that are denied or unreachable: see `unknown`.
    """
    reader = Reader()
    nodes = reader.read("nodes", lambda: observe_nodes(clients.kubernetes))
    # One failed connection is one reason, not one for each Deployment.
    reachable = nodes is not None or reader.read("cluster", lambda: clients.kubernetes.get("/version")) is not None
    instances = reader.read("instances", lambda: _instances(outputs, clients.ec2, nodes or {}))
    slots = tuple(_slot_view(slot, clients, instances, reader) for slot in outputs.slots)
    volumes = tuple(
        _volume_view(volume_id, zone, clients.ec2, reader)
        for volume_id, zone in {slot.volume_id: slot.zone for slot in outputs.slots}.items()
    )
    deployments, operation = observe_deployments(outputs, clients, reader.read, reachable), None
    if reachable:
        operation = reader.read("lock", lambda: observe_operation(outputs.namespace, clients.kubernetes))
    return Observation(clock.now(), slots, deployments, volumes, operation, tuple(reader.unknown))


def _slot_view(
    slot: Slot, clients: Clients, instances: dict[str, list[InstanceView]] | None, reader: Reader
) -> SlotView:
    what = f"node group {slot.node_group_name}"

    def describe() -> dict[str, Any]:
        try:
            return clients.eks.describe_nodegroup(clusterName=clients.cluster_name, nodegroupName=slot.node_group_name)[
                "nodegroup"
            ]
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                return {"status": "missing", "scalingConfig": {"desiredSize": 0}}
            raise

    group = reader.read(what, describe)
    if group is None or instances is None:
        return SlotView(slot, (group or {}).get("status"), None)
    names = [one["name"] for one in group.get("resources", {}).get("autoScalingGroups", [])]
    failures: list[LaunchFailure] = []
    for name in names:
        failures += (
            reader.read(f"launches of {slot.name}", lambda n=name: launch_failures(clients.autoscaling, n)) or ()
        )
    return SlotView(
        slot,
        group["status"],
        int(group["scalingConfig"]["desiredSize"]),
        tuple(instances.get(slot.node_group_name, ())),
        tuple(failures),
    )


def _instances(outputs: StackOutputs, ec2: Any, nodes: dict[str, NodeView]) -> dict[str, list[InstanceView]]:
    """The instances of the stack's GPU node groups, by node group."""
    found: dict[str, list[InstanceView]] = {}
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[
            {"Name": "tag:eks:cluster-name", "Values": [outputs.cluster_name]},
            {"Name": "tag:eks:nodegroup-name", "Values": [slot.node_group_name for slot in outputs.slots]},
            {"Name": "instance-state-name", "Values": _ALIVE},
        ]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for one in reservation["Instances"]:
                tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}
                node = nodes.get(one["InstanceId"])
                found.setdefault(tags["eks:nodegroup-name"], []).append(
                    InstanceView(
                        instance_id=one["InstanceId"],
                        state=one["State"]["Name"],
                        lifecycle=one.get("InstanceLifecycle", "on-demand"),
                        zone=one["Placement"]["AvailabilityZone"],
                        launched_at=one["LaunchTime"],
                        node_name=node.name if node else None,
                        node_ready=node.is_ready if node else None,
                    )
                )
    return found


def _volume_view(volume_id: str, zone: str, ec2: Any, reader: Reader) -> VolumeView:
    def describe() -> VolumeView:
        try:
            volume = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
        except ClientError as error:
            if error_code(error) == "InvalidVolume.NotFound":
                return VolumeView(volume_id, zone, "missing")
            raise
        attached = [one["InstanceId"] for one in volume.get("Attachments", []) if one.get("State") != "detached"]
        return VolumeView(volume_id, volume["AvailabilityZone"], volume["State"], attached[0] if attached else None)

    return reader.read(f"volume {volume_id}", describe) or VolumeView(volume_id, zone, None)

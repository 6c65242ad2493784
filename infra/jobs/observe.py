"""Look at a stack: AWS here, Kubernetes in `observe_cluster`; what cannot be read is `Unknown`, never a crash."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message, error_operation
from infra.jobs.block_window import BlockWindow, block_window, missing_block
from infra.jobs.capacity import LaunchFailure, launch_failures
from infra.jobs.clients import Clients
from infra.jobs.observation import InstanceView, Observation, SlotView, Unknown, VolumeView
from infra.jobs.observe_cluster import NodeView, observe_deployments, observe_nodes, observe_operation
from infra.outputs import Slot, StackOutputs
from infra.preflight.reservations import Reservation
from serving.errors import DormouseError

T = TypeVar("T")
# EC2 gives a spot instance with one of these up; the first comes with the notice of two minutes.
_TAKEN_BACK = ("marked-for-termination", "marked-for-stop")
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
    if instances:
        instances = _with_notices(instances, clients.ec2, reader)
    blocks = _blocks(outputs, clients.ec2, reader)
    slots = tuple(_slot_view(slot, clients, instances, blocks, reader) for slot in outputs.slots)
    alive = None if instances is None else {one.instance_id for group in instances.values() for one in group}
    volumes = tuple(
        _volume_view(volume_id, zone, clients.ec2, alive, reader)
        for volume_id, zone in {one: slot.zone for slot in outputs.slots for one in slot.volume_ids}.items()
    )
    deployments, operation = observe_deployments(outputs, clients, reader.read, reachable), None
    if reachable:
        operation = reader.read("lock", lambda: observe_operation(outputs.namespace, clients.kubernetes))
    return Observation(clock.now(), slots, deployments, volumes, operation, tuple(reader.unknown))


def _slot_view(
    slot: Slot,
    clients: Clients,
    instances: dict[str, list[InstanceView]] | None,
    blocks: dict[str, BlockWindow],
    reader: Reader,
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
        return SlotView(slot, (group or {}).get("status"), None, block=blocks.get(slot.reservation_id or ""))
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
        tuple(f"{one.get('code')}: {one.get('message')}" for one in group.get("health", {}).get("issues", [])),
        blocks.get(slot.reservation_id or ""),
    )


def _blocks(outputs: StackOutputs, ec2: Any, reader: Reader) -> dict[str, BlockWindow]:
    """The windows of the slots' Capacity Blocks by reservation id, without those that cannot be read."""

    def describe(reservation_id: str) -> BlockWindow:
        try:
            found = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation_id])["CapacityReservations"]
        except ClientError as error:
            if error_code(error) == "InvalidCapacityReservationId.NotFound":
                return missing_block(reservation_id)
            raise
        if not found:
            return missing_block(reservation_id)
        return block_window(Reservation.from_ec2(found[0]), outputs.drain_s)

    wanted = dict.fromkeys(slot.reservation_id for slot in outputs.slots if slot.reservation_id)
    read = {one: reader.read(f"capacity block {one}", lambda i=one: describe(i)) for one in wanted}
    return {one: window for one, window in read.items() if window is not None}


def _with_notices(instances: dict[str, list[InstanceView]], ec2: Any, reader: Reader) -> dict[str, list[InstanceView]]:
    """The same instances with what EC2 says of the spot requests that they came from."""
    spot = [one.instance_id for group in instances.values() for one in group if one.lifecycle == "spot"]
    if not spot:
        return instances

    def describe() -> dict[str, str]:
        page = ec2.describe_spot_instance_requests(Filters=[{"Name": "instance-id", "Values": spot}])
        codes = {str(one.get("InstanceId")): str(one["Status"]["Code"]) for one in page["SpotInstanceRequests"]}
        return {instance_id: code for instance_id, code in codes.items() if code in _TAKEN_BACK}

    notices = reader.read("spot notices", describe) or {}
    return {
        name: [replace(one, notice=notices.get(one.instance_id)) for one in group] for name, group in instances.items()
    }


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
                        cordoned=node is not None and node.is_cordoned,
                    )
                )
    return found


def _volume_view(volume_id: str, zone: str, ec2: Any, alive: set[str] | None, reader: Reader) -> VolumeView:
    """- `alive`: the stack's live instances; an instance that is none of them is asked for by name."""

    def describe() -> VolumeView:
        try:
            volume = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
        except ClientError as error:
            if error_code(error) == "InvalidVolume.NotFound":
                return VolumeView(volume_id, zone, "missing")
            raise
        held = next((one for one in volume.get("Attachments", []) if one.get("State") != "detached"), None)
        if held is None:
            return VolumeView(volume_id, volume["AvailabilityZone"], volume["State"])
        holder = str(held["InstanceId"])
        gone = None
        if alive is not None and holder not in alive:
            gone = reader.read(f"instance {holder}, which holds {volume_id}", lambda: _state_if_gone(holder, ec2))
        return VolumeView(volume_id, volume["AvailabilityZone"], volume["State"], holder, held.get("State"), gone)

    return reader.read(f"volume {volume_id}", describe) or VolumeView(volume_id, zone, None)


def _state_if_gone(instance_id: str, ec2: Any) -> str | None:
    """`terminated`, `missing` where EC2 has forgotten the instance, or None where it still exists."""
    try:
        found = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    except ClientError as error:
        if error_code(error).startswith("InvalidInstanceID"):
            return "missing"
        raise
    states = [one["State"]["Name"] for reservation in found for one in reservation["Instances"]]
    return "missing" if not states else "terminated" if states[0] == "terminated" else None

"""Auto Scaling groups of node groups: they ask for capacity, are refused in AWS's words, ask again, replace what goes.

moto's own groups launch at once and always. Those of node groups carry a `GroupState`; for them launching is left to
`settle`, which asks the simulation's `CapacityBook` first and gives every launch the time at which it fell due.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's backends are untyped.

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.ec2.models import ec2_backends

from infra.sandbox.cloud import instances
from infra.sandbox.cloud.activities import ActivityLog
from infra.sandbox.cloud.refusals import Refusal, refusal_for
from infra.sandbox.cloud.simulation import current, utc

# EKS lowers a Capacity Block's node group this long before the block ends.
_BLOCK_SCALE_DOWN_LEAD = timedelta(minutes=40)
_STATE = "simulated_scaling"


@dataclass(frozen=True)
class Launch:
    """What a group launches.

    - `purchase`: `on-demand`, `spot` or `capacity-block`.
    - `instance_types`: tried in this order.
    - `reservation_id`: the Capacity Block to launch into, or None.
    """

    purchase: str
    instance_types: tuple[str, ...]
    reservation_id: str | None


@dataclass
class GroupState:
    """What the simulation keeps on one Auto Scaling group.

    - `next_attempt_s`: when it next asks for capacity, in simulated seconds since 1970; None where nothing is missing.
    - `launched`: by instance id, when it was launched and whether its node joins.
    """

    launch: Launch
    template_id: str
    log: ActivityLog
    next_attempt_s: float | None = None
    launched: dict[str, tuple[float, bool]] = field(default_factory=dict[str, tuple[float, bool]])
    block_was_lowered: bool = False


def create_group(
    account_id: str,
    region: str,
    name: str,
    template_id: str,
    subnet_ids: list[str],
    sizes: Mapping[str, int],
    tags: Mapping[str, str],
    launch: Launch,
) -> None:
    """Make the group; `sizes` has EKS's keys minSize, desiredSize, maxSize; `tags` go on to its instances."""
    backend: Any = autoscaling_backends[account_id][region]
    backend.create_auto_scaling_group(
        name=name,
        availability_zones=[],
        desired_capacity=0,
        max_size=sizes["maxSize"],
        min_size=0,
        launch_config_name=None,
        launch_template={"LaunchTemplateId": template_id, "Version": "$Default"},
        vpc_zone_identifier=",".join(subnet_ids),
        default_cooldown=None,
        health_check_period=None,
        health_check_type="EC2",
        load_balancers=[],
        target_group_arns=[],
        placement_group=None,
        termination_policies=["AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"],
        tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
        capacity_rebalance=launch.purchase == "spot",
    )
    group = backend.autoscaling_groups[name]
    group.__dict__[_STATE] = GroupState(launch, template_id, ActivityLog(name, str(group.arn)))
    set_numbers(account_id, region, name, sizes)


def delete_group(account_id: str, region: str, name: str) -> None:
    """Remove the group and terminate what is left of its instances."""
    backend: Any = autoscaling_backends[account_id][region]
    if name in backend.autoscaling_groups:
        backend.delete_auto_scaling_group(name)


def numbers(account_id: str, region: str, name: str) -> dict[str, int]:
    """The group's sizes with EKS's keys; those of an empty group where it was deleted by hand."""
    group: Any = autoscaling_backends[account_id][region].autoscaling_groups.get(name)
    if group is None:
        return {"minSize": 0, "maxSize": 1, "desiredSize": 0}
    return {"minSize": group.min_size, "maxSize": group.max_size, "desiredSize": group.desired_capacity}


def set_numbers(account_id: str, region: str, name: str, sizes: Mapping[str, int]) -> None:
    """Set the group's sizes; instances above the desired number are terminated at once."""
    backend: Any = autoscaling_backends[account_id][region]
    group = backend.autoscaling_groups.get(name)
    if group is not None:
        group.min_size, group.max_size = sizes["minSize"], sizes["maxSize"]
        backend.set_desired_capacity(name, sizes["desiredSize"])


def set_launch(account_id: str, region: str, name: str, instance_type: str | None, reservation_id: str | None) -> None:
    """Follow another version of the launch template; None leaves the instance types."""
    state = _state(autoscaling_backends[account_id][region].autoscaling_groups.get(name))
    if state is not None:
        types = (instance_type,) if instance_type else state.launch.instance_types
        state.launch = replace(state.launch, instance_types=types, reservation_id=reservation_id)


def replace_instances(account_id: str, region: str, name: str) -> None:
    """Terminate every instance of the group, so that new ones of the current template come."""
    running = instance_ids(account_id, region, name)
    if running:
        ec2_backends[account_id][region].terminate_instances(running)
        backend: Any = autoscaling_backends[account_id][region]
        backend.notify_terminate_instances(running)


def instance_ids(account_id: str, region: str, name: str) -> list[str]:
    """The instances of the group."""
    group: Any = autoscaling_backends[account_id][region].autoscaling_groups.get(name)
    return [str(one.instance.id) for one in group.instance_states] if group is not None else []


def joined_count(account_id: str, region: str, name: str, now_s: float) -> int:
    """How many of the group's instances are Kubernetes nodes by now."""
    state = _state(autoscaling_backends[account_id][region].autoscaling_groups.get(name))
    if state is None:
        return 0
    launched = [state.launched.get(one, (now_s, False)) for one in instance_ids(account_id, region, name)]
    join_s = current().durations.instance_join_s
    return sum(1 for launched_s, joins in launched if joins and now_s >= launched_s + join_s)


def launch_fails(account_id: str, region: str, name: str) -> bool:
    """Whether the group wants an instance and its last request for one was refused."""
    group: Any = autoscaling_backends[account_id][region].autoscaling_groups.get(name)
    state = _state(group)
    return state is not None and _missing(group) > 0 and state.log.last_failure() is not None


def last_message(account_id: str, region: str, name: str) -> str:
    """The message of the last refused launch, or an empty text."""
    state = _state(autoscaling_backends[account_id][region].autoscaling_groups.get(name))
    return (state.log.last_failure() or "") if state is not None else ""


def log_of(group: Any) -> ActivityLog | None:
    """The activities of moto's Auto Scaling group, or None where it is none of a node group."""
    state = _state(group)
    return state.log if state is not None else None


def settle(account_id: str, region: str, now_s: float) -> None:
    """Launch, retry and take back whatever fell due in the groups of node groups."""
    for group in list(autoscaling_backends[account_id][region].autoscaling_groups.values()):
        state = _state(group)
        if state is not None:
            _end_of_block(group, state, now_s)
            _launch_missing(group, state, now_s)


def capacity_was_asked(group: Any, delay_s: float = 0.0) -> bool:
    """Have a node group's group ask for capacity `delay_s` from now; False where it is moto's own."""
    state = _state(group)
    if state is None:
        return False
    state.next_attempt_s = current().now_s() + delay_s
    return True


def _state(group: Any) -> GroupState | None:
    return None if group is None else group.__dict__.get(_STATE)


def _missing(group: Any) -> int:
    return int(group.desired_capacity or 0) - len(group.active_instances())


def _launch_missing(group: Any, state: GroupState, now_s: float) -> None:
    # A pause of 0 would never end.
    retry_s = max(1.0, current().durations.launch_retry_s)
    while state.next_attempt_s is not None and state.next_attempt_s <= now_s:
        if _missing(group) <= 0:
            state.next_attempt_s = None
        elif not _launch_one(group, state, state.next_attempt_s):
            state.next_attempt_s += retry_s


def _launch_one(group: Any, state: GroupState, at_s: float) -> bool:
    """Ask for one instance in each of the group's subnets, the emptiest first, until one comes."""
    backend: Any = group.ec2_backend
    before = len(group.active_instances())
    placed = [one.instance.subnet_id for one in group.instance_states]
    subnet_ids = sorted(str(group.vpc_zone_identifier).split(","), key=placed.count)
    for subnet_id in subnet_ids:
        zone = str(backend.get_subnet(subnet_id).availability_zone)
        refusal: Refusal | None = None
        for instance_type in state.launch.instance_types:
            refusal = _refusal(backend, state.launch, instance_type, zone, at_s)
            if refusal is None:
                joins = current().capacity.joins(instance_type, zone, state.launch.purchase, utc(at_s))
                instance = instances.launch(
                    group, state.template_id, instance_type, subnet_id, state.launch.purchase,
                    state.launch.reservation_id, joins, at_s,
                )  # fmt: skip
                state.launched[str(instance.id)] = (at_s, joins)
                state.log.launched(str(instance.id), subnet_id, zone, before, at_s)
                return True
        if refusal is not None:
            state.log.failed(refusal.message, subnet_id, zone, before, int(group.desired_capacity), at_s)
    return False


def _refusal(backend: Any, launch: Launch, instance_type: str, zone: str, at_s: float) -> Refusal | None:
    if not instances.is_offered(str(backend.region_name), instance_type, zone):
        return refusal_for(launch.purchase, instance_type, zone, "Unsupported")
    in_block = instances.running_in_reservation(backend, launch.reservation_id)
    return current().capacity.refusal(
        instance_type, zone, launch.purchase, utc(at_s), launch.reservation_id, len(in_block)
    )


def _end_of_block(group: Any, state: GroupState, now_s: float) -> None:
    block = current().capacity.blocks.get(state.launch.reservation_id or "")
    if block is None:
        return
    if not state.block_was_lowered and utc(now_s) >= block.end - _BLOCK_SCALE_DOWN_LEAD:
        state.block_was_lowered = True
        group.min_size = 0
        group.set_desired_capacity(0)
    if block.takes_instances_back(utc(now_s)):
        taken = [str(one.id) for one in instances.running_in_reservation(group.ec2_backend, block.reservation_id)]
        if taken:
            group.ec2_backend.terminate_instances(taken)
            group.autoscaling_backend.notify_terminate_instances(taken)

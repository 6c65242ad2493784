"""Where moto's Auto Scaling is made to follow the simulation."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from typing import Any

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult

from infra.sandbox.cloud import scaling
from infra.sandbox.cloud.simulation import current


def install() -> None:
    """Patch moto's Auto Scaling; groups that belong to no node group behave as before."""
    launch_at_once = FakeAutoScalingGroup.replace_autoscaling_group_instances
    set_desired = FakeAutoScalingGroup.set_desired_capacity
    notify = AutoScalingBackend.notify_terminate_instances

    def replace_autoscaling_group_instances(self: Any, count_needed: int, propagated_tags: dict[str, str]) -> None:
        if not scaling.capacity_was_asked(self):
            launch_at_once(self, count_needed, propagated_tags)

    def set_desired_capacity(self: Any, new_capacity: int | None) -> None:
        before = [str(one.instance.id) for one in getattr(self, "instance_states", [])]
        set_desired(self, new_capacity)
        left = {str(one.instance.id) for one in self.instance_states}
        log = scaling.log_of(self)
        for instance_id in before if log is not None else []:
            if instance_id not in left and log is not None:
                reason = "a difference between desired and actual capacity, shrinking the capacity"
                log.terminated(instance_id, reason, current().now_s())

    def notify_terminate_instances(self: Any, instance_ids: list[str]) -> None:
        simulation = current()
        hit = [
            (group, one.instance.id)
            for group in self.autoscaling_groups.values()
            for one in group.instance_states
            if one.instance.id in instance_ids
        ]
        notify(self, instance_ids)
        for group, instance_id in hit:
            log = scaling.log_of(group)
            if log is not None:
                reason = "an EC2 health check indicating it has been terminated or stopped"
                log.terminated(str(instance_id), reason, simulation.now_s())
                scaling.capacity_was_asked(group, simulation.durations.instance_replacement_s)

    def describe_scaling_activities(self: Any) -> ActionResult:
        name: str | None = self._get_param("AutoScalingGroupName")
        wanted: list[str] = self._get_param("ActivityIds", [])
        groups = self.autoscaling_backend.autoscaling_groups
        if name is not None and name not in groups:
            raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
        chosen = [groups[name]] if name is not None else list(groups.values())
        logs = [log for group in chosen if (log := scaling.log_of(group)) is not None]
        entries = [entry for log in logs for entry in log.entries if not wanted or entry["ActivityId"] in wanted]
        entries.sort(key=lambda entry: entry["StartTime"], reverse=True)
        start, size = int(self._get_param("NextToken") or 0), int(self._get_param("MaxRecords") or 100)
        token = str(start + size) if start + size < len(entries) else None
        return ActionResult({"Activities": entries[start : start + size], "NextToken": token})

    patched: Any = FakeAutoScalingGroup
    patched.replace_autoscaling_group_instances = replace_autoscaling_group_instances
    patched.set_desired_capacity = set_desired_capacity
    backend: Any = AutoScalingBackend
    backend.notify_terminate_instances = notify_terminate_instances
    response: Any = AutoScalingResponse
    response.describe_scaling_activities = describe_scaling_activities

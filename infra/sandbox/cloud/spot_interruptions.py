"""EC2 that takes spot instances back: a notice that DescribeSpotInstanceRequests shows, and the end two minutes later."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.responses import EC2Response

from infra.sandbox.cloud.simulation import Simulation, current, utc

NOTICE_S = 120.0
"""EC2's notice before it takes a spot instance (EC2 user guide)."""

_MESSAGE = "Spot Instance interruption notice: the instance will be terminated in two minutes."


def install() -> None:
    """Have DescribeSpotInstanceRequests show the request of every live spot instance, beside moto's own."""
    answer = EC2Response.describe_spot_instance_requests

    def describe_spot_instance_requests(self: Any) -> ActionResult:
        filters = {one["Name"]: one["Values"] for one in self._get_param("Filters", [])}
        if set(filters) != {"instance-id"}:
            return answer(self)
        wanted = filters["instance-id"]
        shown = [_request(one, current()) for one in _live_spot(self.ec2_backend) if str(one.id) in wanted]
        return ActionResult({"SpotInstanceRequests": shown})

    response: Any = EC2Response
    response.describe_spot_instance_requests = describe_spot_instance_requests


def interrupt(zone: str | None) -> list[str]:
    """Give notice to every live spot instance of the zone (a name; None is any) and return their ids."""
    simulation = current()
    backends = [backend for regions in ec2_backends.values() for backend in regions.values()]
    ids = [str(one.id) for backend in backends for one in _live_spot(backend) if zone in (None, _zone(one))]
    for instance_id in ids:
        simulation.capacity.notices.setdefault(instance_id, simulation.now_s())
    return ids


def settle(account_id: str, region: str, now_s: float) -> None:
    """Terminate what has had its notice for two minutes."""
    notices = current().capacity.notices
    due = {one for one, at_s in notices.items() if now_s >= at_s + NOTICE_S}
    taken = [str(one.id) for one in _live_spot(ec2_backends[account_id][region]) if str(one.id) in due] if due else []
    if taken:
        ec2_backends[account_id][region].terminate_instances(taken)
        autoscaling_backends[account_id][region].notify_terminate_instances(taken)


def _live_spot(backend: Any) -> list[Any]:
    return [one for one in backend.all_running_instances() if one.lifecycle == "spot"]


def _zone(instance: Any) -> str:
    return str(instance.placement.zone)


def _request(instance: Any, simulation: Simulation) -> dict[str, Any]:
    """The spot request of an instance that an Auto Scaling group launched, as EC2 describes it."""
    instance_id = str(instance.id)
    noticed_s = simulation.capacity.notices.get(instance_id)
    code, message = ("fulfilled", "Your Spot request is fulfilled.")
    if noticed_s is not None:
        code, message = ("marked-for-termination", _MESSAGE)
    return {
        "SpotInstanceRequestId": f"sir-{instance_id.removeprefix('i-')[:8]}",
        "InstanceId": instance_id,
        "State": "active",
        "Status": {
            "Code": code,
            "Message": message,
            "UpdateTime": utc(noticed_s if noticed_s is not None else simulation.now_s()),
        },
        "Type": "one-time",
        "LaunchedAvailabilityZone": _zone(instance),
    }

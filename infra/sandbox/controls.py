"""The sandbox's levers: capacity that runs out, callers that send requests."""

from infra.jobs.kubernetes_api import KubernetesApi
from infra.sandbox.cloud.admin import CloudAdmin
from infra.sandbox.cloud.capacity import PURCHASES, CapacityRule, Purchase
from infra.sandbox.kubernetes.server import REQUESTS_PATH
from infra.sandbox.state import SandboxState
from infra.sandbox.world import sandbox_token
from serving.errors import DormouseError

_EVERY: tuple[Purchase, ...] = ("on-demand", "spot", "capacity-block")


def refuse(purchase: str, zone: str | None) -> str:
    """Let capacity run out until further notice; `all` is every kind, `none` brings everything back. Says what holds."""
    state = SandboxState.load()
    admin = CloudAdmin(state.admin_url)
    if purchase == "none":
        for rule in admin.capacity_rules():
            admin.remove_capacity_rule(rule.rule_id)
        return "every kind of capacity is there again"
    kinds: tuple[Purchase, ...] = _EVERY if purchase == "all" else tuple(kind for kind in _EVERY if kind == purchase)
    if not kinds:
        raise ValueError(f"purchase {purchase!r}; accepted: {', '.join(PURCHASES)}, all, none")
    instance_type = state.outputs.slots[0].instance_type
    for kind in kinds:
        admin.add_capacity_rule(CapacityRule(purchase=kind, zone=zone, instance_type=instance_type))
    return f"no {' or '.join(kinds)} capacity for {instance_type} in {zone or 'any zone'} from now on"


def interrupt_spot(zone: str | None) -> str:
    """Have EC2 take every running spot machine of the zone back, after its two minutes' notice. Says what it takes."""
    state = SandboxState.load()
    taken = CloudAdmin(state.admin_url).interrupt_spot(zone)
    if not taken:
        raise DormouseError(f"no spot machine runs in {zone or 'any zone'}; `dormouse wake --sandbox` starts one")
    return f"EC2 takes {', '.join(taken)} back in two minutes of the simulated clock; `dormouse move --sandbox` goes on"


def send_requests(count: int, seconds_each: float) -> None:
    """Have `count` simulated requests run on the ready pods, each for `seconds_each` simulated seconds."""
    state = SandboxState.load()
    outputs = state.outputs
    api = KubernetesApi(state.kubernetes_url, "", lambda: sandbox_token(outputs.cluster_name, outputs.region))
    api.create(REQUESTS_PATH, {"namespace": outputs.namespace, "count": count, "seconds_each": seconds_each})

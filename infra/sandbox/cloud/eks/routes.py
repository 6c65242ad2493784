"""How requests to EKS reach the operations, and what falls due before each of them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's and botocore's models are untyped.

from collections.abc import Callable
from types import ModuleType
from typing import Any

from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import camelcase_to_underscores, get_service_model
from moto.eks import urls
from moto.sts.models import sts_backends

from infra.sandbox.cloud.eks import access, addons, checks, clusters, node_groups, pod_identity, updates_and_tags
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import invalid_parameter
from infra.sandbox.cloud.eks.state import Description, eks_state
from infra.sandbox.cloud.simulation import current

Operation = Callable[[Call], Description]
_MODULES: tuple[ModuleType, ...] = (clusters, node_groups, addons, access, pod_identity, updates_and_tags)


class EksResponse(BaseResponse):
    """moto's entry to EKS; every operation is a method that `_serve` made of a function of this package."""

    def __init__(self) -> None:
        """Have moto parse parameters with botocore's model."""
        super().__init__(service_name="eks")
        self.automated_parameter_parsing = True


def install() -> None:
    """Put this EKS in the place of moto's own."""
    shapes: Any = get_service_model("eks")
    for name in shapes.operation_names:
        method = camelcase_to_underscores(name)
        operation = next((getattr(module, method) for module in _MODULES if hasattr(module, method)), None)
        if operation is not None:
            setattr(EksResponse, method, _serve(operation, shapes.operation_model(name).input_shape))
    urls.url_paths.clear()
    urls.url_paths["{0}/(?P<path>.+)$"] = EksResponse.dispatch


def settle(account_id: str, region: str, now_s: float) -> None:
    """Carry out everything that fell due in EKS."""
    state = eks_state(account_id, region)
    for cluster in list(state.clusters.values()):
        node_groups.settle_node_groups(state, cluster, now_s)
        addons.settle_addons(cluster, now_s)
        clusters.settle_cluster(state, cluster, now_s)


def _serve(operation: Operation, shape: Any) -> Callable[[Any], ActionResult]:
    def method(response: Any) -> ActionResult:
        simulation = current()
        parameters: dict[str, Any] = {key: value for key, value in response.params.items() if value is not None}
        fault = checks.enum_fault(shape, parameters)
        if fault is not None:
            raise invalid_parameter(fault)
        account_id, region = str(response.current_account), str(response.region)
        identity: Any = sts_backends[account_id][response.partition]
        caller_arn = str(identity.get_caller_identity(response.access_key, region)[1])
        with simulation.lock:
            simulation.settle(account_id, region)
            state = eks_state(account_id, region)
            return ActionResult(operation(Call(simulation, state, parameters, caller_arn, simulation.now_s())))

    return method

"""Everything that is changed in moto, put in once."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

import importlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.errors import COMMON_ERROR_CODES
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.ec2.responses import EC2Response
from werkzeug.exceptions import HTTPException

from infra.sandbox.cloud import (
    budgets,
    ec2_blocks,
    ec2_dependencies,
    ec2_placement_groups,
    ec2_reservations,
    ec2_spot_prices,
    ec2_volumes,
    ecr_cache,
    iam,
    images,
    quotas,
    s3_policies,
    scaling,
    scaling_patches,
    spot_interruptions,
)
from infra.sandbox.cloud.eks import routes
from infra.sandbox.cloud.simulation import Simulation, current

# Modules of moto whose time stamps follow the simulated clock. IAM and STS stay on the wall clock, as signatures do.
_TIMED_MODULES = (
    "moto.autoscaling.models",
    "moto.ec2.models.elastic_block_store",
    "moto.ec2.models.elastic_network_interfaces",
    "moto.ec2.models.instances",
    "moto.ec2.models.launch_templates",
    "moto.ec2.models.nat_gateways",
)


class _SimulationError(ServiceException):
    """An error of the simulation itself; moto looks a service's errors up by the module of their class."""


_log = logging.getLogger("dormouse.sandbox.cloud")
_patched: list[bool] = []


def install(simulation: Simulation) -> None:
    """Patch moto, unless that has been done, and have `simulation` carry out what falls due."""
    simulation.on_settle(spot_interruptions.settle)
    simulation.on_settle(scaling.settle)
    simulation.on_settle(routes.settle)
    if _patched:
        return
    _patched.append(True)
    # AWS's common errors, of which moto's list lacks these two; it warns of codes that it does not know.
    COMMON_ERROR_CODES.extend(("InvalidAction", "InternalFailure"))
    base: Any = BaseResponse
    base.call_action = _answered(BaseResponse.call_action)
    routes.install()
    scaling_patches.install()
    ec2_volumes.install()
    ec2_dependencies.install()
    ec2_placement_groups.install()
    ec2_reservations.install()
    ec2_blocks.install()
    ec2_spot_prices.install()
    quotas.install()
    spot_interruptions.install()
    budgets.install()
    ecr_cache.install()
    iam.install()
    images.install()
    s3_policies.install()
    for name in _TIMED_MODULES:
        module: Any = importlib.import_module(name)
        module.utcnow = _simulated_utcnow
    for response in (EC2Response, AutoScalingResponse):
        _settle_first(response)


def _simulated_utcnow() -> datetime:
    return current().now_naive()


def _settle_first(response_class: Any) -> None:
    """Have everything due carried out before a request of that service is answered."""
    answer = response_class.call_action

    def call_action(self: Any) -> Any:
        simulation = current()
        with simulation.lock:
            simulation.settle(str(self.current_account), str(self.region))
            return answer(self)

    response_class.call_action = _answered(call_action)


def _answered(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Have operations that moto lacks, and faults of the simulation, answered as AWS errors and not as HTML pages."""

    def call_action(self: Any) -> Any:
        try:
            return answer(self)
        except NotImplementedError:
            message = f"The simulated cloud has no {self.boto3_service_name} {self._get_action()}"
            # A client's error: boto3 would ask again after one of the server.
            return self.serialized(ActionResult(_SimulationError("InvalidAction", message)))
        except (HTTPException, ClientError):
            raise
        except Exception as fault:  # noqa: BLE001, whatever it is must reach the client as an answer
            _log.exception("the simulated cloud failed at %s %s", self.boto3_service_name, self._get_action())
            message = f"The simulated cloud failed: {type(fault).__name__}: {fault}"
            return self.serialized(ActionResult(_SimulationError("InternalFailure", message)))

    return call_action

"""A stack file's plan: what preview would say, without a cloud."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.cost_plan import CostPlan, plan_cost
from infra.environment import Environment, load, stack_file_values
from infra.loading_plan import LoadingPlan, plan_loading
from infra.loading_text import loading_lines
from infra.naming import slot_names
from infra.plan_text import cost_lines, fit_lines
from infra.speed_text import speed_lines, speed_mapping
from infra.throughput_plan import ThroughputPlan, plan_throughput
from infra.throughput_text import throughput_lines
from infra.weights_settings import TOKEN_KEY, plain_token_fault
from serving.engine.extra_arguments import kv_offload_bytes
from serving.errors import ConfigurationError, Fault
from serving.service_plan import ServicePlan, plan_service


@dataclass(frozen=True)
class Plan:
    """What one environment needs and costs; `has_api_key` is False while the secret is not set yet."""

    environment: Environment
    service: ServicePlan
    cost: CostPlan
    loading: LoadingPlan
    throughput: ThroughputPlan
    has_api_key: bool

    def lines(self) -> list[str]:
        """The plan for people: fit, then the ways to load, then cost."""
        return [
            *fit_lines(self.environment, self.service),
            "",
            *loading_lines(self.loading),
            "",
            *throughput_lines(self.throughput),
            "",
            *cost_lines(self.environment, self.cost),
            "",
            *speed_lines(self.environment.model, self.service, self.cost),
        ]

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain JSON, in camelCase; an unknown price is null."""
        memory = self.service.memory
        cost = self.cost
        return {
            "environment": self.environment.name,
            "model": memory.model,
            "instanceType": memory.instance_type,
            "memory": {
                "tensorParallel": memory.tensor_parallel,
                "weightsBytes": memory.weights_bytes,
                "weightsBytesPerGpu": memory.weights_bytes_per_gpu,
                "reservedBytesPerGpu": memory.reserved_bytes,
                "kvCacheBytesPerGpu": memory.kv_cache_bytes,
                "kvCacheTokens": memory.kv_cache_tokens,
                "contextTokens": memory.limits.context_tokens,
                "fullContextRequests": round(memory.full_context_requests, 2),
            },
            "engine": {
                "preset": None if self.environment.engine.preset is None else self.environment.engine.preset.name,
                "maxSequences": memory.limits.max_sequences,
                "maxBatchedTokens": memory.limits.max_batched_tokens,
                "kvCacheDtype": memory.limits.kv_cache_dtype,
                "extraArgs": list(self.environment.extra_args),
            },
            "start": {"plannedLoadS": self.service.planned_load_s, "startupWindowS": self.service.startup_window_s},
            "loading": self.loading.to_mapping(),
            "throughput": self.throughput.to_mapping(),
            "speed": speed_mapping(self.environment.model, self.service, self.cost),
            "cost": {
                "asleepUsdPerDay": _cents(cost.asleep_usd_per_day),
                "asleepUsdPerMonth": _cents(cost.asleep_usd_per_month),
                "awakeHoursPerMonth": round(cost.awake_hours_per_month, 1),
                "candidates": [
                    {
                        "slot": machine.candidate,
                        "usdPerHour": machine.usd_per_hour,
                        "prepaid": machine.prepaid,
                        "timetableUsdPerMonth": None if machine.prepaid else _cents(cost.month_usd(machine)),
                        "alwaysOnUsdPerMonth": None if machine.prepaid else _cents(cost.always_on_usd(machine)),
                        "priceOrigin": None if machine.price is None else machine.price.origin(),
                    }
                    for machine in cost.machines
                ],
                "asleepItems": [
                    {
                        "name": item.name,
                        "usdPerMonth": _cents(item.usd_per_month),
                        "priceOrigin": None if item.price is None else item.price.origin(),
                    }
                    for item in cost.asleep
                ],
            },
        }


def plan_environment(environment: Environment) -> ServicePlan:
    """The service plan of an environment, which loads by the path that it chose.

    Raises DoesNotFitError or ConfigurationError before anything is registered.
    """
    return plan_service(
        environment.model,
        environment.shape,
        environment.limits,
        environment.weights.throughput_mib_per_s,
        environment.drain_s,
        kv_offload_bytes(environment.extra_args),
        plan_loading(environment).choice.estimate,
        environment.replicas.nodes,
    )


def plan_file(path: Path) -> Plan:
    """The plan of the stack file at `path`; a missing API key is no fault here, since it may stand elsewhere.

    Raises ConfigurationError with every fault of the file, and DoesNotFitError.
    """
    values = read_stack_file(path)
    has_api_key = bool(values.get("apiKeySecret"))
    values.setdefault("apiKeySecret", {"secure": ""})
    environment = load(stack_name(path), values, datetime.now(UTC).date(), str(path))
    slots = slot_names(environment.candidates, {})
    loading = plan_loading(environment)
    return Plan(
        environment,
        plan_environment(environment),
        plan_cost(environment, slots),
        loading,
        plan_throughput(environment, loading),
        has_api_key,
    )


def read_stack_file(path: Path) -> dict[str, Any]:
    """The `dormouse:` values of a stack file; raises ConfigurationError where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no text"
        raise ConfigurationError(
            [Fault(str(path), reason, "a stack file, such as Pulumi.dev.yaml")], "the command line"
        ) from error
    values = stack_file_values(text, str(path))
    if isinstance(values.get(TOKEN_KEY), str) and values[TOKEN_KEY]:
        raise ConfigurationError([plain_token_fault()], str(path))
    return values


def stack_name(path: Path) -> str:
    """The stack that a file belongs to: `dev` for Pulumi.dev.yaml, else the file's name."""
    prefix, _, rest = path.stem.partition(".")
    return rest if prefix == "Pulumi" and rest else path.stem


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)

"""From a checked environment to resources: plan, cost, components, outputs."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from components import Candidate, ModelServer, ModelServerArgs
from infra.cost_plan import CostPlan, plan_cost
from infra.environment import Environment
from infra.naming import COST_TAG_KEY, prefix, required_tags, slot_names
from infra.outputs import Slot, StackOutputs
from infra.plan import plan_environment
from infra.plan_text import cost_lines, fit_lines
from infra.versions import kubernetes_minors
from serving.errors import ConfigurationError, Fault
from serving.service_plan import ServicePlan

_FEWEST_ZONES = 2
_SUBNET_LETTERS = "abcdef"


def build(environment: Environment, api_key: pulumi.Output[str]) -> None:
    """Register every resource of `environment` and export its outputs.

    Raises DoesNotFitError where the model does not fit, ConfigurationError where a zone is none of the account's.
    """
    plan = plan_environment(environment)
    identity = aws.get_caller_identity()
    if environment.account_id is not None and identity.account_id != environment.account_id:
        raise ConfigurationError(
            [Fault("dormouse:accountId", environment.account_id, f"{identity.account_id}, whose credentials these are")]
        )
    found = aws.get_availability_zones(
        state="available", filters=[{"name": "opt-in-status", "values": ["opt-in-not-required", "opted-in"]}]
    )
    ids_by_name = dict(zip(found.names, found.zone_ids, strict=True))
    names_by_id = {zone_id: name for name, zone_id in ids_by_name.items()}
    zones = _zone_names(environment, ids_by_name, names_by_id)
    slots = slot_names(environment.candidates, {zone: ids_by_name[name] for zone, name in zones.items()})
    cost = plan_cost(environment, slots)
    pulumi.log.info("\n".join(["", *fit_lines(environment, plan), "", *cost_lines(environment, cost)]))

    server = ModelServer(
        prefix(environment), _server_args(environment, plan, identity.account_id, zones, slots, ids_by_name, api_key)
    )
    _export(environment, plan, cost, identity.account_id, zones, ids_by_name, server)


def _zone_names(
    environment: Environment, ids_by_name: Mapping[str, str], names_by_id: Mapping[str, str]
) -> dict[str, str]:
    """Each candidate's zone as written to its name in this account; raises ConfigurationError with every unknown one."""
    faults: list[Fault] = []
    zones: dict[str, str] = {}
    for index, candidate in enumerate(environment.candidates):
        name = names_by_id.get(candidate.zone, candidate.zone)
        if name in ids_by_name:
            zones[candidate.zone] = name
        else:
            accepted = ", ".join(f"{name} ({zone_id})" for name, zone_id in ids_by_name.items())
            faults.append(Fault(f"dormouse:capacity[{index}].zone", candidate.zone, accepted))
    if faults:
        raise ConfigurationError(faults)
    return zones


def _server_args(
    environment: Environment,
    plan: ServicePlan,
    account_id: str,
    zones: Mapping[str, str],
    slots: list[str],
    ids_by_name: Mapping[str, str],
    api_key: pulumi.Output[str],
) -> ModelServerArgs:
    weights, access, cost = environment.weights, environment.access, environment.cost
    used = set(zones.values())
    spare = [name for name in sorted(ids_by_name) if name[-1] in _SUBNET_LETTERS and name not in used]
    candidates: list[Candidate] = []
    for slot, given in zip(slots, environment.candidates, strict=True):
        candidate: Candidate = {"slot": slot, "purchase": given.purchase, "zone": zones[given.zone]}
        if given.reservation_id is not None:
            candidate["reservation_id"] = given.reservation_id
        candidates.append(candidate)
    args: ModelServerArgs = {
        "account_id": account_id,
        "region": environment.region,
        "model": environment.model.name,
        "instance_type": environment.shape.name,
        "candidates": candidates,
        # EKS wants two zones even where capacity is looked for in one.
        "network_zones": sorted(used) + spare[: max(0, _FEWEST_ZONES - len(used))],
        "network_cidr": environment.network_cidr,
        "kubernetes_version": environment.kubernetes_version,
        "addon_versions": dict(kubernetes_minors()[environment.kubernetes_version].addon_versions),
        "endpoint_cidrs": list(environment.endpoint_cidrs),
        "admin_principal_arns": list(environment.admin_principal_arns),
        "volume_size_gib": weights.size_gib,
        "volume_throughput_mib_per_s": weights.throughput_mib_per_s,
        "volume_iops": weights.iops,
        "context_tokens": environment.limits.context_tokens,
        "max_sequences": environment.limits.max_sequences,
        "kv_cache_dtype": environment.limits.kv_cache_dtype,
        "max_batched_tokens": environment.limits.max_batched_tokens,
        "extra_args": list(environment.engine.added_args),
        "drain_s": plan.drain_s,
        "api_key": api_key,
        "exposure": access.exposure,
        "allowed_cidrs": list(access.allowed_cidrs),
        "cost_tag": f"{COST_TAG_KEY}={environment.name}",
        "notify_emails": list(cost.notify_emails),
        "tags": required_tags(environment),
    }
    if weights.snapshot_id is not None:
        args["volume_snapshot_id"] = weights.snapshot_id
    if access.certificate_arn is not None:
        args["certificate_arn"] = access.certificate_arn
    if cost.monthly_budget_usd is not None:
        args["monthly_budget_usd"] = float(cost.monthly_budget_usd)
    if cost.expires_at is not None:
        args["expires_at"] = cost.expires_at
    return args


def _export(
    environment: Environment,
    plan: ServicePlan,
    cost: CostPlan,
    account_id: str,
    zones: Mapping[str, str],
    ids_by_name: Mapping[str, str],
    server: ModelServer,
) -> None:
    def outputs(values: list[Any]) -> dict[str, Any]:
        cluster_name, namespace, service, port, secret, slots, groups, deployments, volumes = values
        made: list[Slot] = []
        for index, candidate in enumerate(environment.candidates):
            zone = zones[candidate.zone]
            made.append(
                Slot(
                    name=slots[index],
                    purchase=candidate.purchase.value,
                    instance_type=environment.shape.name,
                    zone=zone,
                    zone_id=ids_by_name[zone],
                    node_group_name=groups[index],
                    deployment_name=deployments[index],
                    volume_id=volumes[index],
                    patience_s=environment.patience_s,
                    reservation_id=candidate.reservation_id,
                    usd_per_hour=cost.machines[index].usd_per_hour,
                )
            )
        return StackOutputs(
            environment=environment.name,
            region=environment.region,
            account_id=account_id,
            cluster_name=str(cluster_name),
            namespace=str(namespace),
            service_name=str(service),
            service_port=int(port),
            model=environment.model.name,
            served_model_name=environment.model.served_name,
            api_key_secret_name=str(secret),
            slots=tuple(made),
            gpus_per_node=environment.shape.gpus,
            startup_window_s=plan.startup_window_s,
            drain_s=plan.drain_s,
            planned_load_s=plan.planned_load_s,
            weights_bytes=plan.memory.weights_bytes,
            kv_cache_tokens=plan.memory.kv_cache_tokens,
            access=environment.access.exposure,
            asleep_usd_per_day=cost.asleep_usd_per_day,
        ).to_mapping()

    exported = pulumi.Output.all(
        server.cluster_name,
        server.namespace,
        server.service_name,
        server.service_port,
        server.api_key_secret_name,
        server.slots,
        server.node_group_names,
        server.deployment_names,
        server.volume_ids,
    ).apply(outputs)
    for key in StackOutputs.exported_keys():
        pulumi.export(key, exported.apply(lambda values, k=key: values[k]))
    pulumi.export("kubeconfig", server.kubeconfig)
    pulumi.export("topicArn", server.topic_arn)

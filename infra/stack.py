"""From a checked environment to resources: plan, cost, components, outputs."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from components import Candidate, ModelServer, ModelServerArgs
from infra.block_check import check_blocks
from infra.brain.policy_text import policy_text
from infra.cost_plan import CostPlan, plan_cost
from infra.environment import Environment
from infra.loading_plan import plan_loading
from infra.loading_text import loading_lines
from infra.naming import COST_TAG_KEY, prefix, required_tags, slot_names
from infra.outputs import Slot, StackOutputs
from infra.plan import plan_environment
from infra.plan_text import cost_lines, fit_lines
from infra.throughput_plan import plan_throughput
from infra.throughput_text import throughput_lines
from infra.versions import kubernetes_minors
from serving.errors import ConfigurationError, Fault
from serving.loading import READS_S3
from serving.service_plan import ServicePlan

_FEWEST_ZONES = 2
_SUBNET_LETTERS = "abcdef"


def build(environment: Environment, api_key: pulumi.Output[str], hub_token: pulumi.Output[str] | None = None) -> None:
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
    check_blocks(environment, zones)
    slots = slot_names(environment.candidates, {zone: ids_by_name[name] for zone, name in zones.items()})
    cost = plan_cost(environment, slots)
    loading = plan_loading(environment)
    ways = [*loading_lines(loading), "", *throughput_lines(plan_throughput(environment, loading))]
    pulumi.log.info("\n".join(["", *fit_lines(environment, plan), "", *ways, "", *cost_lines(environment, cost)]))

    server = ModelServer(
        prefix(environment),
        _server_args(environment, plan, identity.account_id, zones, slots, ids_by_name, api_key, hub_token),
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
    hub_token: pulumi.Output[str] | None = None,
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
        "replicas": environment.replicas.count,
        "nodes_per_replica": environment.replicas.nodes,
        # EKS wants two zones even where capacity is looked for in one.
        "network_zones": sorted(used) + spare[: max(0, _FEWEST_ZONES - len(used))],
        "network_cidr": environment.network_cidr,
        "kubernetes_version": environment.kubernetes_version,
        "addon_versions": dict(kubernetes_minors()[environment.kubernetes_version].addon_versions),
        "endpoint_cidrs": list(environment.endpoint_cidrs),
        "admin_principal_arns": list(environment.admin_principal_arns),
        "volume_zones": sorted({zones[zone] for zone in weights.zones}),
        "weights_s3_copy": weights.s3_copy,
        "volume_size_gib": weights.size_gib,
        "volume_throughput_mib_per_s": weights.throughput_mib_per_s,
        "volume_iops": weights.iops,
        "volume_asleep_mib_per_s": weights.asleep_mib_per_s,
        "context_tokens": environment.limits.context_tokens,
        "max_sequences": environment.limits.max_sequences,
        "kv_cache_dtype": environment.limits.kv_cache_dtype,
        "max_batched_tokens": environment.limits.max_batched_tokens,
        "extra_args": list(environment.engine.added_args),
        "loading_path": plan.loading.value,
        "parallel_image_pull": environment.loading.parallel_pull,
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
    args["weights_source"] = weights.source
    if weights.revision is not None:
        args["weights_revision"] = weights.revision
    args["hydrate_on"] = weights.hydrate_on
    if weights.hub_endpoint is not None:
        args["hub_endpoint"] = weights.hub_endpoint
    if hub_token is not None:
        args["hub_token"] = hub_token
    if (secret_arn := environment.loading.image_cache_secret_arn) is not None:
        args["image_cache_secret_arn"] = secret_arn
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
        cluster_name, namespace, service, port, secret, slots, groups, deployments, volumes = values[:9]
        worker_deployments, worker_volumes, topic_arn, startup_window_s, copy_uri = values[9:]
        made: list[Slot] = []
        workers = environment.replicas.nodes - 1
        for index, name in enumerate(slots):
            replica, place = divmod(index, len(environment.candidates))
            candidate = environment.candidates[place]
            zone = zones[candidate.zone]
            beside = slice(index * workers, (index + 1) * workers)
            made.append(
                Slot(
                    name=name,
                    purchase=candidate.purchase.value,
                    instance_type=environment.shape.name,
                    zone=zone,
                    zone_id=ids_by_name[zone],
                    node_group_name=groups[index],
                    deployment_name=deployments[index],
                    volume_id=volumes[index],
                    patience_s=environment.patience_s,
                    reservation_id=candidate.reservation_id,
                    usd_per_hour=cost.machines[place].usd_per_hour,
                    replica=replica,
                    nodes=environment.replicas.nodes,
                    worker_deployment_names=tuple(worker_deployments[beside]),
                    worker_volume_ids=tuple(worker_volumes[beside]),
                    loads_from_s3=not volumes[index] or plan.loading in READS_S3,
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
            # The longest of all zones: one that streams may take another time than one with a volume.
            startup_window_s=int(startup_window_s),
            drain_s=plan.drain_s,
            planned_load_s=plan.planned_load_s,
            weights_bytes=plan.memory.weights_bytes,
            kv_cache_tokens=plan.memory.kv_cache_tokens,
            access=environment.access.exposure,
            asleep_usd_per_day=cost.asleep_usd_per_day,
            replicas=environment.replicas.count,
            topic_arn=str(topic_arn),
            return_to_preferred=environment.return_to_preferred,
            policy=policy_text(
                idle_minutes=environment.cost.idle_minutes,
                timetable=environment.cost.timetable,
                monthly_budget_usd=environment.cost.monthly_budget_usd,
                expires_at=environment.cost.expires_at,
                mode=environment.cost.sleep_mode,
                delayed_request_worth=environment.cost.delayed_request_worth,
            ),
            weights_copy_uri=str(copy_uri),
            volume_mib_per_s=environment.weights.throughput_mib_per_s,
            volume_iops=environment.weights.iops,
            volume_asleep_mib_per_s=environment.weights.asleep_mib_per_s,
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
        server.worker_deployment_names,
        server.worker_volume_ids,
        server.topic_arn,
        server.startup_window_s,
        server.weights_copy_uri,
    ).apply(outputs)
    for key in StackOutputs.exported_keys():
        pulumi.export(key, exported.apply(lambda values, k=key: values[k]))
    pulumi.export("kubeconfig", server.kubeconfig)

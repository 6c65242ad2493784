"""The whole serving layer as one unit: network, cluster, capacity candidates, weight volumes, vLLM and cost policy."""

import pulumi

from components._inputs import Arguments
from components.capacity_events import CapacityEvents
from components.cluster import Cluster
from components.cost_policy import CostPolicy, CostPolicyArgs
from components.fabric import Fabric
from components.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs, Purchase
from components.image_cache import ImageCache
from components.model_server_args import Candidate, ModelServerArgs
from components.network import Network
from components.objects import KubernetesObject
from components.vllm_service import VllmService, VllmServiceArgs
from components.weight_filling import (
    check_volume_zones,
    copy_uri,
    expect_weights,
    hydration_args,
    weight_access,
    weight_store,
    weight_volumes,
)
from components.weight_hydration import WeightHydration
from components.weight_volume import WeightVolume
from serving.accelerators import instance_shape, instance_shapes
from serving.loading import READS_S3
from serving.manifests.efa_device_plugin import efa_device_plugin
from serving.manifests.place import MOST_NODES, MOST_REPLICAS, place_suffix
from serving.manifests.service import namespace as namespace_manifest
from serving.profiles import known_models, load_model


class ModelServer(pulumi.ComponentResource):
    """A model on its own network and cluster, asleep until somebody wakes it.

    List outputs follow `candidates`, replica by replica; those of workers hold each candidate's in the order of ranks.
    """

    cluster_name: pulumi.Output[str]
    """The EKS cluster."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig that asks the AWS CLI for a token."""
    namespace: pulumi.Output[str]
    """The namespace of the service."""
    service_name: pulumi.Output[str]
    """The Service inside the namespace."""
    service_port: pulumi.Output[int]
    """The Service's port."""
    api_key_secret_name: pulumi.Output[str]
    """The Secret that holds the key."""
    slots: pulumi.Output[list[str]]
    """The candidates' names."""
    node_group_names: pulumi.Output[list[str]]
    """The node group of each candidate."""
    deployment_names: pulumi.Output[list[str]]
    """The Deployment that each candidate's node serves."""
    volume_ids: pulumi.Output[list[str]]
    """The weight volume of each candidate's zone; "" for a zone without one, which loads from the regional copy."""
    worker_deployment_names: pulumi.Output[list[str]]
    """The Deployments of the further machines of each candidate; empty where a replica takes one machine."""
    worker_volume_ids: pulumi.Output[list[str]]
    """The weight volumes of those machines, "" likewise."""
    weights_copy_uri: pulumi.Output[str]
    """The regional copy of the model's folder, `s3://bucket/model`; "" where none is kept."""
    planned_load_s: pulumi.Output[int]
    """An estimate of a start, in seconds."""
    startup_window_s: pulumi.Output[int]
    """The longest start that is waited for, in seconds."""
    weights_bytes: pulumi.Output[int]
    """Bytes of the whole checkpoint."""
    kv_cache_tokens: pulumi.Output[int]
    """Tokens that the KV cache holds."""
    topic_arn: pulumi.Output[str]
    """The SNS topic for warnings about money."""

    def __init__(self, name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register everything; `name` becomes the cluster's and the namespace's name."""
        super().__init__("dormouse:index:ModelServer", name, {}, opts)
        given = Arguments("ModelServer", args)
        candidates = args.get("candidates") or []
        network_zones = given.texts("network_zones", at_least=2)
        replicas = given.whole_number("replicas", 1, 1, MOST_REPLICAS)
        nodes = given.whole_number("nodes_per_replica", 1, 1, MOST_NODES)
        _check(given, candidates, network_zones)
        given.check()
        model = load_model(args["model"])
        tags = given.tags()
        child = pulumi.ResourceOptions(parent=self)

        network = Network(
            f"{name}-network",
            {
                "region": args["region"],
                "zones": network_zones,
                "cidr": args.get("network_cidr") or "10.40.0.0/16",
                "tags": tags,
            },
            child,
        )
        cluster = Cluster(
            name,
            {
                "region": args["region"],
                "kubernetes_version": args["kubernetes_version"],
                "addon_versions": args["addon_versions"],
                "control_plane_subnet_ids": network.control_plane_subnet_ids,
                "node_subnet_ids": network.private_subnet_ids,
                "endpoint_cidrs": given.texts("endpoint_cidrs"),
                "admin_principal_arns": given.texts("admin_principal_arns"),
                "tags": tags,
                "instance_tags": _cost_tag(args),
            },
            child,
        )
        inside = pulumi.ResourceOptions(parent=self, provider=cluster.kubernetes, depends_on=cluster.ready)
        namespace = KubernetesObject(f"{name}-namespace", namespace_manifest(name), inside)
        in_namespace = pulumi.ResourceOptions(parent=self, providers=[cluster.kubernetes])
        namespace_name = namespace.id.apply(lambda _: name)

        zones = sorted({candidate["zone"] for candidate in candidates})
        kept = sorted(given.texts("volume_zones")) or zones
        claims = [f"{name}-weights-{zone}" if zone in kept else "" for zone in zones]
        places = [
            (zone, place_suffix(lane, rank)) for lane in range(replicas) for zone in zones for rank in range(nodes)
        ]
        filled = [place for place in places if place[0] in kept]
        volumes = weight_volumes(name, args, namespace_name, filled, in_namespace)
        store = weight_store(name, args, child)
        hydration = hydration_args(
            name, args, network, cluster, namespace_name, [(*one, volumes["".join(one)]) for one in filled]
        )
        hydration["instance_tags"] = _cost_tag(args)
        filling = pulumi.ResourceOptions(parent=self, providers=[cluster.kubernetes], depends_on=cluster.ready)
        WeightHydration(f"{name}-hydration", hydration, filling)
        served: VllmServiceArgs = {
            "model": model.name,
            "instance_type": args["instance_type"],
            "context_tokens": args["context_tokens"],
            "max_sequences": args["max_sequences"],
            "kv_cache_dtype": args.get("kv_cache_dtype") or "auto",
            "max_batched_tokens": args.get("max_batched_tokens") or 8192,
            "extra_args": given.texts("extra_args"),
            "volume_mib_per_s": args["volume_throughput_mib_per_s"],
            "drain_s": args.get("drain_s") or 600,
            "namespace": namespace_name,
            "pool": name,
            "zones": zones,
            "claim_names": claims,
            "replicas": replicas,
            "nodes_per_replica": nodes,
            "api_key": args["api_key"],
            "exposure": args.get("exposure") or "cluster",
            "allowed_cidrs": given.texts("allowed_cidrs"),
            "control_plane_cidrs": network.control_plane_cidrs,
            "node_cidrs": network.private_cidrs,
        }
        if (certificate_arn := args.get("certificate_arn")) is not None:
            served["certificate_arn"] = certificate_arn
        served["loading_path"] = args.get("loading_path") or "volume"
        expect_weights(served, args)
        if uri := copy_uri(name, args):
            served["s3_uri"], served["s3_region"] = uri, args["region"]
        if (secret_arn := args.get("image_cache_secret_arn")) is not None:
            image_cache = ImageCache(
                f"{name}-images",
                {
                    "account_id": args["account_id"],
                    "region": args["region"],
                    "prefix": f"{name}-hub",
                    "secret_arn": secret_arn,
                    "node_role_arn": cluster.node_role_arn,
                },
                child,
            )
            served["registry"] = image_cache.registry
        service = VllmService(f"{name}-vllm", served, in_namespace)
        reader = service.service_account_name if "" in claims or served["loading_path"] in READS_S3 else None
        weight_access(name, args, cluster, namespace_name, reader, child)
        fabric_id: pulumi.Output[str] | None = None
        if nodes > 1:
            fabric_id = Fabric(f"{name}-fabric", {"vpc_id": network.vpc_id, "tags": tags}, child).security_group_id
            KubernetesObject(f"{name}-efa-device-plugin", efa_device_plugin(args["region"]), inside)
        lanes = [(lane, candidate) for lane in range(replicas) for candidate in candidates]
        slots = [candidate["slot"] + place_suffix(lane) for lane, candidate in lanes]
        groups = [
            self._group(name, args, candidate, lane, network, cluster, network_zones, fabric_id)
            for lane, candidate in lanes
        ]
        money: CostPolicyArgs = {
            "account_id": args["account_id"],
            "cluster_name": cluster.cluster_name,
            "node_group_names": pulumi.Output.all(*(group.node_group_name for group in groups)),
            "node_group_arns": pulumi.Output.all(*(group.node_group_arn for group in groups)),
            "slots": slots,
            "cost_tag": args["cost_tag"],
            "notify_emails": given.texts("notify_emails"),
            "tags": tags,
        }
        if (budget := args.get("monthly_budget_usd")) is not None:
            money["monthly_budget_usd"] = budget
        if (expires_at := args.get("expires_at")) is not None:
            money["expires_at"] = expires_at
        policy = CostPolicy(f"{name}-cost", money, child)
        purchases = sorted({Purchase(candidate["purchase"]).value for candidate in candidates})
        CapacityEvents(f"{name}-capacity", {"topic_arn": policy.topic_arn, "purchases": purchases, "tags": tags}, child)

        self.cluster_name = cluster.cluster_name
        self.kubeconfig = cluster.kubeconfig
        self.namespace = namespace_name
        self.service_name = service.service_name
        self.service_port = service.service_port
        self.api_key_secret_name = service.api_key_secret_name
        self.slots = pulumi.Output.from_input(slots)
        self.node_group_names = pulumi.Output.all(*(group.node_group_name for group in groups))
        firsts = [candidate["zone"] + place_suffix(lane) for lane, candidate in lanes]
        workers = [
            candidate["zone"] + place_suffix(lane, rank) for lane, candidate in lanes for rank in range(1, nodes)
        ]
        order = [zone + suffix for zone, suffix in places]
        self.deployment_names = service.deployment_names.apply(lambda all_: [all_[order.index(one)] for one in firsts])
        self.worker_deployment_names = service.deployment_names.apply(
            lambda all_: [all_[order.index(one)] for one in workers]
        )
        self.volume_ids = pulumi.Output.all(*(_volume_id(volumes, one) for one in firsts))
        self.worker_volume_ids = pulumi.Output.all(*(_volume_id(volumes, one) for one in workers))
        self.weights_copy_uri = pulumi.Output.from_input("") if store is None else store.uri
        self.planned_load_s = service.planned_load_s
        self.startup_window_s = service.startup_window_s
        self.weights_bytes = service.weights_bytes
        self.kv_cache_tokens = service.kv_cache_tokens
        self.topic_arn = policy.topic_arn
        self.register_outputs(
            {
                "clusterName": self.cluster_name,
                "kubeconfig": self.kubeconfig,
                "namespace": self.namespace,
                "serviceName": self.service_name,
                "servicePort": self.service_port,
                "apiKeySecretName": self.api_key_secret_name,
                "slots": self.slots,
                "nodeGroupNames": self.node_group_names,
                "deploymentNames": self.deployment_names,
                "volumeIds": self.volume_ids,
                "workerDeploymentNames": self.worker_deployment_names,
                "workerVolumeIds": self.worker_volume_ids,
                "weightsCopyUri": self.weights_copy_uri,
                "plannedLoadS": self.planned_load_s,
                "startupWindowS": self.startup_window_s,
                "weightsBytes": self.weights_bytes,
                "kvCacheTokens": self.kv_cache_tokens,
                "topicArn": self.topic_arn,
            }
        )

    def _group(
        self,
        name: str,
        args: ModelServerArgs,
        candidate: Candidate,
        lane: int,
        network: Network,
        cluster: Cluster,
        network_zones: list[str],
        fabric_id: pulumi.Output[str] | None,
    ) -> GpuNodeGroup:
        slot = candidate["slot"] + place_suffix(lane)
        place = sorted(set(network_zones)).index(candidate["zone"])
        group: GpuNodeGroupArgs = {
            "cluster_name": cluster.cluster_name,
            "kubernetes_version": args["kubernetes_version"],
            "node_role_arn": cluster.node_role_arn,
            "subnet_id": network.private_subnet_ids.apply(lambda ids: ids[place]),
            "purchase": candidate["purchase"],
            "instance_type": args["instance_type"],
            "accelerator": instance_shape(args["instance_type"]).accelerator,
            "slot": slot,
            "pool": name,
            "max_nodes": args.get("nodes_per_replica") or 1,
            "parallel_image_pull": args.get("parallel_image_pull", False),
            "tags": args.get("tags") or {},
            "instance_tags": _cost_tag(args),
        }
        if (args.get("replicas") or 1) > 1:
            group["replica"] = lane
        if fabric_id is not None:
            group["efa_cards"] = instance_shape(args["instance_type"]).efa_cards
            group["security_group_ids"] = pulumi.Output.all(cluster.security_group_id, fabric_id)
        if (reservation_id := candidate.get("reservation_id")) is not None:
            group["reservation_id"] = reservation_id
        return GpuNodeGroup(f"{name}-{slot}", group, pulumi.ResourceOptions(parent=self, depends_on=cluster.ready))


def _volume_id(volumes: dict[str, WeightVolume], place: str) -> pulumi.Input[str]:
    return volumes[place].volume_id if place in volumes else ""


def _cost_tag(args: ModelServerArgs) -> dict[str, str]:
    """The one tag that machines carry: what the budget counts. Others may change, and must not replace a machine."""
    key, _, value = args["cost_tag"].partition("=")
    return {key: value}


def _check(given: Arguments, candidates: list[Candidate], network_zones: list[str]) -> None:
    """Note every fault that the children would not name as well."""
    given.one_of("model", known_models())
    given.one_of("instance_type", tuple(instance_shapes()))
    key, _, value = given.text("cost_tag").partition("=")
    if not key or not value:
        given.fault("cost_tag", f"got {given.given('cost_tag')}; accepted: key=value")
    if not candidates:
        given.fault("candidates", "got none; accepted: at least one place to look for capacity")
    slots = [candidate["slot"] for candidate in candidates]
    for slot in sorted({slot for slot in slots if slots.count(slot) > 1}):
        given.fault("candidates", f"got the slot {slot} twice; accepted: names that differ")
    check_volume_zones(given, {candidate["zone"] for candidate in candidates})
    for candidate in candidates:
        if candidate["zone"] not in network_zones:
            given.fault("candidates", f"got zone {candidate['zone']}; accepted: {', '.join(network_zones)}")

"""The whole serving layer as one unit: network, cluster, capacity candidates, weight volumes, vLLM and cost policy."""

from typing import NotRequired, TypedDict

import pulumi

from components._inputs import Arguments
from components.cluster import Cluster
from components.cost_policy import CostPolicy, CostPolicyArgs
from components.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs, Purchase
from components.network import Network
from components.objects import KubernetesObject
from components.vllm_service import VllmService, VllmServiceArgs
from components.weight_volume import WeightVolume, WeightVolumeArgs
from serving.accelerators import instance_shape, instance_shapes
from serving.manifests.service import namespace as namespace_manifest
from serving.profiles import known_models, load_model


class Candidate(TypedDict):
    """One place where capacity is looked for."""

    slot: str
    """The candidate's name, unique and stable, such as `spot-use2-az3`; resources are named after it."""
    purchase: Purchase
    """How the machine is bought."""
    zone: str
    """The availability zone by name."""
    reservation_id: NotRequired[str]
    """The Capacity Block's reservation; required for capacity-block."""


class ModelServerArgs(TypedDict):
    """Arguments of `ModelServer`."""

    account_id: str
    """The AWS account."""
    region: str
    """The AWS region."""
    model: str
    """The model's name, such as `kimi-k2.5`."""
    instance_type: str
    """The machine that serves it, such as `p5en.48xlarge`."""
    candidates: list[Candidate]
    """Where capacity is looked for, in order of preference."""
    network_zones: list[str]
    """Zones of the network, two at least; every candidate's zone is among them."""
    network_cidr: NotRequired[str]
    """The VPC's addresses. Default: 10.40.0.0/16."""
    kubernetes_version: str
    """The Kubernetes minor in EKS's standard support."""
    addon_versions: dict[str, str]
    """The exact version of each add-on."""
    endpoint_cidrs: NotRequired[list[str]]
    """Addresses that may reach the API server from outside the VPC."""
    admin_principal_arns: NotRequired[list[str]]
    """IAM principals that administer the cluster."""
    volume_size_gib: int
    """GiB of each weight volume."""
    volume_throughput_mib_per_s: int
    """MiB a second of each weight volume."""
    volume_iops: NotRequired[int]
    """Operations a second of each weight volume."""
    volume_snapshot_id: NotRequired[str]
    """A snapshot that weight volumes start from."""
    context_tokens: int
    """Longest request in tokens."""
    max_sequences: int
    """Requests that may run at once."""
    kv_cache_dtype: NotRequired[str]
    """`auto` or `fp8`."""
    max_batched_tokens: NotRequired[int]
    """Tokens that one step of the engine computes at most."""
    extra_args: NotRequired[list[str]]
    """Arguments for vLLM beside those that follow from the plan."""
    drain_s: NotRequired[int]
    """Seconds that vLLM goes on answering after it was told to stop."""
    api_key: pulumi.Input[str]
    """The key that callers send; a secret."""
    exposure: NotRequired[str]
    """`cluster`, `internal` or `public`."""
    allowed_cidrs: NotRequired[list[str]]
    """Addresses that a load balancer lets in."""
    certificate_arn: NotRequired[str]
    """ACM certificate of a public load balancer."""
    cost_tag: str
    """`key=value` of the cost allocation tag that the budget counts."""
    monthly_budget_usd: NotRequired[float]
    """US dollars a month."""
    notify_emails: NotRequired[list[str]]
    """Addresses for warnings."""
    expires_at: NotRequired[str]
    """ISO time with offset at which the GPU groups are set to 0."""
    tags: NotRequired[dict[str, str]]
    """Tags of every resource."""


class ModelServer(pulumi.ComponentResource):
    """A model on its own network and cluster, asleep until somebody wakes it. List outputs follow `candidates`."""

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
    """The weight volume of each candidate's zone."""
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
        claims = [f"{name}-weights-{zone}" for zone in zones]
        volumes: dict[str, WeightVolume] = {}
        for zone, claim in zip(zones, claims, strict=True):
            volume: WeightVolumeArgs = {
                "zone": zone,
                "size_gib": args["volume_size_gib"],
                "throughput_mib_per_s": args["volume_throughput_mib_per_s"],
                "model": model.name,
                "source": model.repository,
                "namespace": namespace_name,
                "claim_name": claim,
                "tags": tags,
            }
            if (iops := args.get("volume_iops")) is not None:
                volume["iops"] = iops
            if (snapshot_id := args.get("volume_snapshot_id")) is not None:
                volume["snapshot_id"] = snapshot_id
            volumes[zone] = WeightVolume(claim, volume, in_namespace)
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
            "api_key": args["api_key"],
            "exposure": args.get("exposure") or "cluster",
            "allowed_cidrs": given.texts("allowed_cidrs"),
            "control_plane_cidrs": network.control_plane_cidrs,
            "node_cidrs": network.private_cidrs,
        }
        if (certificate_arn := args.get("certificate_arn")) is not None:
            served["certificate_arn"] = certificate_arn
        service = VllmService(f"{name}-vllm", served, in_namespace)
        groups = [self._group(name, args, candidate, network, cluster, network_zones) for candidate in candidates]
        money: CostPolicyArgs = {
            "account_id": args["account_id"],
            "cluster_name": cluster.cluster_name,
            "node_group_names": pulumi.Output.all(*(group.node_group_name for group in groups)),
            "node_group_arns": pulumi.Output.all(*(group.node_group_arn for group in groups)),
            "slots": [candidate["slot"] for candidate in candidates],
            "cost_tag": args["cost_tag"],
            "notify_emails": given.texts("notify_emails"),
            "tags": tags,
        }
        if (budget := args.get("monthly_budget_usd")) is not None:
            money["monthly_budget_usd"] = budget
        if (expires_at := args.get("expires_at")) is not None:
            money["expires_at"] = expires_at
        policy = CostPolicy(f"{name}-cost", money, child)

        self.cluster_name = cluster.cluster_name
        self.kubeconfig = cluster.kubeconfig
        self.namespace = namespace_name
        self.service_name = service.service_name
        self.service_port = service.service_port
        self.api_key_secret_name = service.api_key_secret_name
        self.slots = pulumi.Output.from_input([candidate["slot"] for candidate in candidates])
        self.node_group_names = pulumi.Output.all(*(group.node_group_name for group in groups))
        self.deployment_names = service.deployment_names.apply(
            lambda names: [names[zones.index(candidate["zone"])] for candidate in candidates]
        )
        self.volume_ids = pulumi.Output.all(*(volumes[candidate["zone"]].volume_id for candidate in candidates))
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
        network: Network,
        cluster: Cluster,
        network_zones: list[str],
    ) -> GpuNodeGroup:
        place = sorted(set(network_zones)).index(candidate["zone"])
        group: GpuNodeGroupArgs = {
            "cluster_name": cluster.cluster_name,
            "kubernetes_version": args["kubernetes_version"],
            "node_role_arn": cluster.node_role_arn,
            "subnet_id": network.private_subnet_ids.apply(lambda ids: ids[place]),
            "purchase": candidate["purchase"],
            "instance_type": args["instance_type"],
            "accelerator": instance_shape(args["instance_type"]).accelerator,
            "slot": candidate["slot"],
            "pool": name,
            "tags": args.get("tags") or {},
            "instance_tags": _cost_tag(args),
        }
        if (reservation_id := candidate.get("reservation_id")) is not None:
            group["reservation_id"] = reservation_id
        return GpuNodeGroup(
            f"{name}-{candidate['slot']}", group, pulumi.ResourceOptions(parent=self, depends_on=cluster.ready)
        )


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
    for candidate in candidates:
        if candidate["zone"] not in network_zones:
            given.fault("candidates", f"got zone {candidate['zone']}; accepted: {', '.join(network_zones)}")

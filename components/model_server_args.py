"""The arguments of `ModelServer`."""

from typing import NotRequired, TypedDict

import pulumi

from components.gpu_node_group import Purchase


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
    replicas: NotRequired[int]
    """Replicas of the model, each with candidates and volumes of its own. Default: 1."""
    nodes_per_replica: NotRequired[int]
    """Machines that one replica takes together, each with a volume of its own. Default: 1."""
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
    volume_asleep_mib_per_s: NotRequired[int]
    """MiB a second of each weight volume while asleep, which jobs see to. Default: those that it has awake."""
    weights_source: NotRequired[str]
    """Where the hydrator downloads from: `huggingface`, `hf://…`, `modelscope://…` or `s3://…`."""
    weights_revision: NotRequired[str]
    """Branch, tag or commit of the source."""
    hydrate_on: NotRequired[str]
    """`cheap-node` (default) or `gpu-node`."""
    hub_token: NotRequired[pulumi.Input[str]]
    """The Hugging Face hub's token, a secret."""
    hub_endpoint: NotRequired[str]
    """A mirror of the hub, `https://…`."""
    volume_zones: NotRequired[list[str]]
    """Zones that keep a weight volume; a candidate's other zones load from the regional copy. Default: all of them."""
    weights_s3_copy: NotRequired[bool]
    """Keep a copy of the weights in S3, which the hydrator fills as well. Default: false."""
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
    loading_path: NotRequired[str]
    """How weights get into GPU memory, such as `volume-prefetch`. Default: volume, vLLM's own loader."""
    parallel_image_pull: NotRequired[bool]
    """Let nodes pull and unpack the layers of an image in parallel; experimental. Default: false."""
    image_cache_secret_arn: NotRequired[str]
    """Docker Hub credentials, a secret called `ecr-pullthroughcache/…`: pull the engine's image through ECR."""
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

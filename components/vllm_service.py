"""vLLM behind its gateway: the objects that serve one model in one namespace."""

from typing import NotRequired, TypedDict

import pulumi

from components._inputs import Arguments
from components.expected_weights import expected_source
from components.objects import KubernetesObject
from serving.accelerators import instance_shape
from serving.engine.extra_arguments import extra_argument_faults, kv_offload_bytes
from serving.errors import DormouseError
from serving.loading import READS_S3, LoadingPath, S3Source, estimate_path
from serving.manifests.deployment import API_KEY_FIELD, ServiceNames, deployment
from serving.manifests.labels import app_labels, pod_selector
from serving.manifests.multi_node import first_service, first_service_name
from serving.manifests.place import MOST_NODES, MOST_REPLICAS, Place, place_suffix
from serving.manifests.service import (
    EXPOSURES,
    SERVICE_PORT,
    Access,
    gateway_config_map,
    network_policy,
    service,
    service_account,
)
from serving.memory import KV_CACHE_DTYPES, EngineLimits
from serving.profiles import load_model
from serving.runtime import pinned_runtime
from serving.service_plan import ServicePlan, plan_service

# Scheduling, image pull and Kubernetes' own reactions, beside what the plan knows.
_MARGIN_S = 900


class VllmServiceArgs(TypedDict):
    """Arguments of `VllmService`."""

    model: str
    """The model's name in the data folder, such as `kimi-k2.5`."""
    instance_type: str
    """The machine that a replica fills, such as `p5en.48xlarge`."""
    context_tokens: int
    """Longest request, prompt and answer together, in tokens."""
    max_sequences: int
    """Requests that may run at once."""
    kv_cache_dtype: NotRequired[str]
    """`auto` (BF16) or `fp8`. Default: auto."""
    max_batched_tokens: NotRequired[int]
    """Tokens that one step of the engine computes at most. Default: 8192."""
    extra_args: NotRequired[list[str]]
    """Arguments for vLLM beside those that follow from the plan, one entry each; checked against its flags."""
    volume_mib_per_s: int
    """The weight volume's throughput, from which the start-up window is computed."""
    drain_s: NotRequired[int]
    """Seconds that vLLM goes on answering after it was told to stop. Default: 600."""
    namespace: pulumi.Input[str]
    """The namespace, which exists."""
    pool: str
    """The node label that GPU nodes of this server carry."""
    zones: list[str]
    """Zones that have a weight volume; one Deployment is made for each."""
    claim_names: list[str]
    """The claim of each zone, in the order of `zones`; "" for a zone without a volume, which streams from S3."""
    replicas: NotRequired[int]
    """Replicas of the model, each with a claim of its own in each zone, called after the zone's. Default: 1."""
    nodes_per_replica: NotRequired[int]
    """Machines that one replica takes together, each with a claim of its own likewise. Default: 1."""
    weights_source: NotRequired[str]
    """What the volumes have to hold, as the hydrator's source. Default: any proven weights of the model."""
    weights_revision: NotRequired[str]
    """Its branch, tag or commit; only a commit is compared. Default: any."""
    loading_path: NotRequired[str]
    """How weights get into GPU memory, such as `volume-prefetch`. Default: volume, vLLM's own loader."""
    s3_uri: NotRequired[pulumi.Input[str]]
    """The regional copy of the model's folder, `s3://bucket/prefix`; required by zones and paths that read it."""
    s3_region: NotRequired[str]
    """The region of that bucket; required with `s3_uri`."""
    registry: NotRequired[pulumi.Input[str]]
    """What stands in front of the engine image's name. Default: Docker Hub."""
    api_key: pulumi.Input[str]
    """The key that callers send; a secret."""
    exposure: NotRequired[str]
    """`cluster`, `internal` or `public`. Default: cluster."""
    allowed_cidrs: NotRequired[list[str]]
    """Addresses that a load balancer lets in; required for public."""
    certificate_arn: NotRequired[str]
    """ACM certificate of the load balancer; required for public."""
    control_plane_cidrs: pulumi.Input[list[str]]
    """Addresses from which the API server's proxy reads metrics."""
    node_cidrs: pulumi.Input[list[str]]
    """Addresses of nodes, through which a load balancer's connections come."""


class VllmService(pulumi.ComponentResource):
    """One Deployment for each zone with a weight volume, behind one Service, one key and one NetworkPolicy."""

    service_name: pulumi.Output[str]
    """The Service inside the namespace."""
    service_port: pulumi.Output[int]
    """The Service's port."""
    service_account_name: pulumi.Output[str]
    """The service account of the pods."""
    api_key_secret_name: pulumi.Output[str]
    """The Secret that holds the key."""
    deployment_names: pulumi.Output[list[str]]
    """The Deployment of each machine, replica by replica, zone by zone in the order of `zones`, rank by rank."""
    planned_load_s: pulumi.Output[int]
    """An estimate of a start, in seconds."""
    startup_window_s: pulumi.Output[int]
    """The longest start that is waited for, in seconds."""
    weights_bytes: pulumi.Output[int]
    """Bytes of the whole checkpoint."""
    kv_cache_tokens: pulumi.Output[int]
    """Tokens that the KV cache holds."""

    def __init__(self, name: str, args: VllmServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the service; the objects use the provider in `opts`. A plan that does not fit is refused here."""
        super().__init__("dormouse:index:VllmService", name, {}, opts)
        given = Arguments("VllmService", args)
        extra_args = _extra_args(given)
        loading = LoadingPath(given.one_of("loading_path", tuple(LoadingPath), LoadingPath.VOLUME))
        plan = _plan(given, extra_args, loading)
        model_name = given.text("model")
        zones = given.texts("zones", at_least=1)
        claims = given.texts("claim_names", at_least=1)
        if len(claims) != len(zones):
            given.fault("claim_names", f"got {len(claims)} for {len(zones)} zones; accepted: one for each zone")
        s3 = _s3(given, loading, claims)
        source = expected_source(given)
        streamed = _plan(given, extra_args, LoadingPath.S3_STREAMER) if "" in claims else None
        replicas = given.whole_number("replicas", 1, 1, MOST_REPLICAS)
        nodes = given.whole_number("nodes_per_replica", 1, 1, MOST_NODES)
        namespace = given.required("namespace")
        registry = given.given("registry")
        image = None if registry is None else pulumi.Output.concat(registry, "/", pinned_runtime().vllm_image)
        pool = given.text("pool")
        api_key = given.required("api_key")
        access = _access(given)
        control_plane_cidrs = given.required("control_plane_cidrs")
        node_cidrs = given.required("node_cidrs")
        given.check()
        if plan is None:
            raise AssertionError  # given.check has raised

        model = load_model(model_name)
        base = model.served_name.replace(".", "-")
        names = ServiceNames(
            instance=name,
            namespace=namespace,
            service=base,
            service_account=base,
            api_key_secret=f"{base}-api-key",
            gateway_config=f"{base}-gateway",
            pool=pool,
        )
        child = pulumi.ResourceOptions(parent=self)
        account = KubernetesObject(f"{name}-account", service_account(names), child)
        secret = KubernetesObject(
            f"{name}-api-key",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": names.api_key_secret,
                    "namespace": namespace,
                    "labels": app_labels(names.instance),
                },
                "type": "Opaque",
                "stringData": {API_KEY_FIELD: pulumi.Output.secret(api_key)},
            },
            child,
        )
        config = KubernetesObject(f"{name}-gateway", gateway_config_map(names), child)
        policy = pulumi.Output.all(control_plane_cidrs, node_cidrs, namespace).apply(
            lambda v: network_policy(names, access, v[0], v[1], reads_s3=s3 is not None, several_machines=nodes > 1)[
                "spec"
            ]
        )
        fence = KubernetesObject(
            f"{name}-policy",
            {**network_policy(names, access, [], []), "spec": policy},
            child,
        )
        # The fence, the key and the gateway's rules stand before the first pod can.
        first = [account, secret, config, fence]
        places = [
            (zone, claim, Place(lane, replicas > 1, rank, first_service_name(f"{base}-{zone}{place_suffix(lane)}")))
            for lane in range(replicas)
            for zone, claim in zip(zones, claims, strict=True)
            for rank in range(nodes)
        ]
        if nodes > 1:
            # Workers look their first machine up by name, so the name stands before they can.
            first = first + [
                KubernetesObject(
                    f"{name}-{zone}{place.suffix}-first",
                    first_service(namespace, name, place.first_name, {**pod_selector(name), **place.labels(zone)}),
                    child,
                )
                for zone, _, place in places
                if place.rank == 0
            ]
        deployments = [
            KubernetesObject(
                f"{name}-{zone}{place.suffix}",
                deployment(
                    names,
                    model,
                    plan if claim or streamed is None else streamed,
                    f"{base}-{zone}{place.suffix}",
                    zone,
                    claim + place.suffix if claim else None,
                    extra_args,
                    s3,
                    image=image,
                    place=place,
                    source=source,
                ),
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=first,
                    ignore_changes=["spec.replicas"],
                    custom_timeouts=_timeouts(plan if claim or streamed is None else streamed),
                ),
            )
            for zone, claim, place in places
        ]
        front = KubernetesObject(f"{name}-service", service(names, access), child)

        self.service_name = front.id.apply(lambda _: names.service)
        self.service_port = pulumi.Output.from_input(443 if access.certificate_arn else SERVICE_PORT)
        self.service_account_name = account.id.apply(lambda _: names.service_account)
        self.api_key_secret_name = secret.id.apply(lambda _: names.api_key_secret)
        self.deployment_names = pulumi.Output.all(*(d.id for d in deployments)).apply(
            lambda _: [f"{base}-{zone}{place.suffix}" for zone, _, place in places]
        )
        self.planned_load_s = pulumi.Output.from_input(plan.planned_load_s)
        window_s = max(one.startup_window_s for one in (plan, streamed) if one is not None)
        self.startup_window_s = pulumi.Output.from_input(window_s)
        self.weights_bytes = pulumi.Output.from_input(plan.memory.weights_bytes)
        self.kv_cache_tokens = pulumi.Output.from_input(plan.memory.kv_cache_tokens)
        self.register_outputs(
            {
                "serviceName": self.service_name,
                "servicePort": self.service_port,
                "serviceAccountName": self.service_account_name,
                "apiKeySecretName": self.api_key_secret_name,
                "deploymentNames": self.deployment_names,
                "plannedLoadS": self.planned_load_s,
                "startupWindowS": self.startup_window_s,
                "weightsBytes": self.weights_bytes,
                "kvCacheTokens": self.kv_cache_tokens,
            }
        )


def _extra_args(given: Arguments) -> tuple[str, ...]:
    extra_args = tuple(given.texts("extra_args"))
    for fault in extra_argument_faults(extra_args, "extra_args"):
        given.fault(fault.key, f"got {fault.value}; accepted: {fault.accepted}")
    return extra_args


def _s3(given: Arguments, loading: LoadingPath, claims: list[str]) -> S3Source | None:
    """The regional copy where something reads it; its absence is a fault then."""
    if loading not in READS_S3 and "" not in claims:
        return None
    uri, region = given.required("s3_uri"), given.text("s3_region")
    return S3Source(uri, region)


def _plan(given: Arguments, extra_args: tuple[str, ...], loading: LoadingPath) -> ServicePlan | None:
    """The service plan for weights that come by `loading`, or None where a fault was noted."""
    context = given.whole_number("context_tokens", None, 1, 10_000_000)
    sequences = given.whole_number("max_sequences", None, 1, 4096)
    dtype = given.one_of("kv_cache_dtype", KV_CACHE_DTYPES, "auto")
    batched = given.whole_number("max_batched_tokens", 8192, 1, 1_000_000)
    throughput = given.whole_number("volume_mib_per_s", None, 1, 100_000)
    drain_s = given.whole_number("drain_s", 600, 30, 7200)
    if min(context, sequences, throughput) < 1:
        return None
    try:
        model, shape = load_model(given.text("model")), instance_shape(given.text("instance_type"))
        return plan_service(
            model,
            shape,
            EngineLimits(context, sequences, "fp8" if dtype == "fp8" else "auto", batched),
            throughput,
            drain_s,
            kv_offload_bytes(extra_args),
            estimate_path(loading, model.published_weights_bytes, shape, throughput),
            given.whole_number("nodes_per_replica", 1, 1, MOST_NODES),
        )
    except DormouseError as error:
        given.fault("model", str(error))
        return None


def _timeouts(plan: ServicePlan) -> pulumi.CustomTimeouts:
    """How long Pulumi waits for a rollout: the old pod's drain and the new one's whole start.

    Its own ten minutes are over before 595 GB are read, and would call a healthy rollout failed.
    """
    drain_s = plan.grace_s + _MARGIN_S
    rollout_s = drain_s + plan.startup_window_s
    return pulumi.CustomTimeouts(create=f"{rollout_s}s", update=f"{rollout_s}s", delete=f"{drain_s}s")


def _access(given: Arguments) -> Access:
    exposure = given.one_of("exposure", EXPOSURES, "cluster")
    access = Access(
        exposure="public" if exposure == "public" else "internal" if exposure == "internal" else "cluster",
        allowed_cidrs=tuple(given.texts("allowed_cidrs")),
        certificate_arn=given.optional_text("certificate_arn"),
    )
    if access.exposure == "public" and not (access.allowed_cidrs and access.certificate_arn):
        given.fault("exposure", "got public; accepted: only with allowed_cidrs and certificate_arn")
    return access

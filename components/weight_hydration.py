"""What fills the weight volumes: the hydrator's program, one suspended CronJob per volume, one small node group per zone."""

import base64
from typing import NotRequired, TypedDict

import pulumi

from components._inputs import Arguments
from components.hydrate_node_group import HydrateNodeGroup, HydrateNodeGroupArgs
from components.objects import KubernetesObject
from components.programs.bundle import bundle
from components.programs.hydrator import ENTRY, MODULES
from serving.errors import ConfigurationError
from serving.manifests.hydrate import (
    NODE_GROUP_ANNOTATION,
    VOLUME_ANNOTATION,
    HydrateJob,
    hydrate_cron_job,
    hydrator_config_map,
    hydrator_network_policy,
    hydrator_service_account,
    hydrator_token_secret,
)
from serving.profiles import known_models, load_model
from serving.weights.sources import SourceKind, parse_source

HYDRATE_ON = ("cheap-node", "gpu-node")
"""Where the download runs: on a small machine of its own, or on the zone's GPU node before it serves."""


class WeightHydrationArgs(TypedDict):
    """Arguments of `WeightHydration`; `places`, `zones`, `claim_names` and `volume_ids` go together, one for each volume."""

    namespace: pulumi.Input[str]
    """The Kubernetes namespace of the claims."""
    model: str
    """The model's name, such as `kimi-k2.5`."""
    source: NotRequired[str]
    """`huggingface`, `hf://…`, `modelscope://…` or `s3://…`. Default: huggingface, the model's own repository."""
    revision: NotRequired[str]
    """Branch, tag or commit. Default: the source's default branch."""
    volume_mib_per_s: int
    """MiB a second of each volume."""
    places: list[str]
    """What tells the volumes apart: the zone, and behind it the replica's and the machine's number."""
    zones: list[str]
    """The zone of each volume."""
    claim_names: list[str]
    """The claim of each volume."""
    volume_ids: pulumi.Input[list[str]]
    """The id of each volume."""
    hydrate_on: NotRequired[str]
    """`cheap-node` or `gpu-node`. Default: cheap-node."""
    pool: str
    """The GPU nodes' pool; the small nodes' is derived from it."""
    cluster_name: pulumi.Input[str]
    """The EKS cluster."""
    kubernetes_version: str
    """The nodes' Kubernetes minor."""
    node_role_arn: pulumi.Input[str]
    """The nodes' IAM role."""
    subnet_ids: pulumi.Input[list[str]]
    """A private subnet for each of `zones`."""
    token: NotRequired[pulumi.Input[str]]
    """The Hugging Face hub's token, a secret."""
    endpoint: NotRequired[str]
    """A mirror of the hub, `https://…`."""
    copy_to: NotRequired[str]
    """The regional copy to fill as well, `s3://bucket/prefix`. Default: none."""
    region: NotRequired[str]
    """The AWS region; required where something is read from S3 or written to it."""
    tags: NotRequired[dict[str, str]]
    """Tags of the node groups."""
    instance_tags: NotRequired[dict[str, str]]
    """Tags of machines and their disks."""


class WeightHydration(pulumi.ComponentResource):
    """Everything that waits in the cluster, at no cost, until somebody runs `dormouse weights hydrate`."""

    cron_job_names: pulumi.Output[list[str]]
    """The CronJob of each volume."""

    def __init__(self, name: str, args: WeightHydrationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register it; the Kubernetes objects use the provider in `opts`."""
        super().__init__("dormouse:index:WeightHydration", name, {}, opts)
        given = Arguments("WeightHydration", args)
        namespace = given.required("namespace")
        model_name = given.one_of("model", known_models())
        source_text = given.text("source", "huggingface")
        throughput = given.whole_number("volume_mib_per_s", None, 1)
        places = given.texts("places", at_least=1)
        zones = given.texts("zones", at_least=1)
        claims = given.texts("claim_names", at_least=1)
        if not len(places) == len(zones) == len(claims):
            given.fault(
                "claim_names", f"got {len(claims)} for {len(places)} places in {len(zones)} zones; accepted: one each"
            )
        volume_ids = pulumi.Output.from_input(given.required("volume_ids"))
        hydrate_on = given.one_of("hydrate_on", HYDRATE_ON, HYDRATE_ON[0])
        pool = given.text("pool")
        subnet_ids = pulumi.Output.from_input(given.required("subnet_ids"))
        model = load_model(model_name)
        source = None
        try:
            source = parse_source(source_text, model.repository, given.optional_text("revision") or "")
        except ConfigurationError as wrong:
            given.fault("source", "; ".join(str(fault) for fault in wrong.faults))
        copy_to = given.optional_text("copy_to") or ""
        in_s3 = bool(copy_to) or (source is not None and source.kind is SourceKind.S3)
        region = given.text("region") if in_s3 else ""
        given.check()
        assert source is not None  # a fault otherwise, which `check` has raised

        child = pulumi.ResourceOptions(parent=self)
        program = base64.b64encode(bundle(ENTRY, MODULES)).decode()
        first: list[pulumi.Resource] = [
            KubernetesObject(f"{name}-program", hydrator_config_map(namespace, program), child),
            KubernetesObject(f"{name}-account", hydrator_service_account(namespace), child),
            KubernetesObject(f"{name}-policy", hydrator_network_policy(namespace), child),
        ]
        token = args.get("token")
        if token is not None:
            first.append(KubernetesObject(f"{name}-token", hydrator_token_secret(namespace, token), child))
        small_pool = f"{pool}-weights"
        groups: dict[str, HydrateNodeGroup] = {}
        for zone in sorted(set(zones)) if hydrate_on == HYDRATE_ON[0] else ():
            at = zones.index(zone)
            group: HydrateNodeGroupArgs = {
                "cluster_name": given.required("cluster_name"),
                "kubernetes_version": given.text("kubernetes_version"),
                "node_role_arn": given.required("node_role_arn"),
                "subnet_id": subnet_ids.apply(lambda ids, at=at: ids[at]),
                "pool": small_pool,
                "tags": given.tags(),
                "instance_tags": given.tags("instance_tags"),
            }
            groups[zone] = HydrateNodeGroup(f"{name}-{zone}", group, child)
        names = [f"weights-{place}" for place in places]
        for at, (place, zone, claim) in enumerate(zip(places, zones, claims, strict=True)):
            job = HydrateJob(
                name=f"weights-{place}",
                claim=claim,
                zone=zone,
                model=model.name,
                source=source.address,
                revision=source.revision,
                weights_bytes=model.published_weights_bytes,
                volume_mib_per_s=throughput,
                pool=small_pool if groups else pool,
                on_gpu_node=not groups,
                endpoint=args.get("endpoint") or "",
                has_token=token is not None,
                copy_to=copy_to,
                region=region,
            )
            annotations = {
                VOLUME_ANNOTATION: volume_ids.apply(lambda ids, at=at: ids[at]),
                NODE_GROUP_ANNOTATION: groups[zone].node_group_name if groups else "",
            }
            KubernetesObject(
                f"{name}-{place}-job",
                hydrate_cron_job(job, namespace, annotations),
                pulumi.ResourceOptions(parent=self, depends_on=first),
            )
        self.cron_job_names = pulumi.Output.from_input(names)
        self.register_outputs({"cronJobNames": self.cron_job_names})

"""From a model server's arguments to its weight volumes, its regional copy, and what fills both."""

from collections.abc import Sequence

import pulumi

from components._inputs import Arguments
from components.cluster import Cluster
from components.model_server_args import ModelServerArgs
from components.network import Network
from components.vllm_service import VllmServiceArgs
from components.weight_access import WeightAccess, WeightAccessArgs
from components.weight_hydration import WeightHydrationArgs
from components.weight_store import WeightStore, WeightStoreArgs, weights_bucket_name
from components.weight_volume import WeightVolume, WeightVolumeArgs
from serving.manifests.hydrate import HYDRATOR_ACCOUNT
from serving.profiles import load_model

_S3 = "s3://"


def check_volume_zones(given: Arguments, zones: set[str]) -> None:
    """Note what is wrong with `volume_zones`; `zones` are those of the candidates."""
    kept = given.texts("volume_zones")
    for zone in sorted(set(kept) - zones):
        given.fault("volume_zones", f"got {zone}; accepted: zones of the candidates: {', '.join(sorted(zones))}")
    bare = sorted(zones - set(kept)) if kept else []
    if bare and not given.given("weights_s3_copy"):
        given.fault(
            "volume_zones",
            f"got none of {', '.join(bare)}; accepted: those as well, or weights_s3_copy, from which they can load",
        )


def weight_volumes(
    name: str,
    args: ModelServerArgs,
    namespace: pulumi.Input[str],
    places: Sequence[tuple[str, str]],
    opts: pulumi.ResourceOptions,
) -> dict[str, WeightVolume]:
    """A volume for each of `places` (zone, and what tells it from the zone's others), by both together."""
    model = load_model(args["model"])
    volumes: dict[str, WeightVolume] = {}
    for zone, suffix in places:
        claim = f"{name}-weights-{zone}{suffix}"
        volume: WeightVolumeArgs = {
            "zone": zone,
            "size_gib": args["volume_size_gib"],
            "throughput_mib_per_s": args["volume_throughput_mib_per_s"],
            "model": model.name,
            "source": model.repository,
            "namespace": namespace,
            "claim_name": claim,
            "tags": args.get("tags") or {},
        }
        if (iops := args.get("volume_iops")) is not None:
            volume["iops"] = iops
        if (
            args.get("volume_asleep_mib_per_s", args["volume_throughput_mib_per_s"])
            != args["volume_throughput_mib_per_s"]
        ):
            volume["speed_changes"] = True
        if (snapshot_id := args.get("volume_snapshot_id")) is not None:
            volume["snapshot_id"] = snapshot_id
        volumes[zone + suffix] = WeightVolume(claim, volume, opts)
    return volumes


def expect_weights(served: VllmServiceArgs, args: ModelServerArgs) -> None:
    """Have the pods refuse a volume that holds other weights than these; what a snapshot holds is as it was proven."""
    if args.get("volume_snapshot_id") is not None:
        return
    if (source := args.get("weights_source")) is not None:
        served["weights_source"] = source
    if (revision := args.get("weights_revision")) is not None:
        served["weights_revision"] = revision


def copy_uri(name: str, args: ModelServerArgs) -> str:
    """The regional copy of the model's folder, `s3://bucket/model`, or "" where none is kept."""
    if not args.get("weights_s3_copy"):
        return ""
    return f"{_S3}{weights_bucket_name(name, args['account_id'], args['region'])}/{args['model']}"


def weight_store(name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions) -> WeightStore | None:
    """The bucket of the regional copy, or None where none is kept."""
    if not args.get("weights_s3_copy"):
        return None
    store: WeightStoreArgs = {
        "bucket_name": weights_bucket_name(name, args["account_id"], args["region"]),
        "model": args["model"],
        "tags": args.get("tags") or {},
    }
    return WeightStore(f"{name}-weights", store, opts)


def weight_access(
    name: str,
    args: ModelServerArgs,
    cluster: Cluster,
    namespace: pulumi.Input[str],
    server_account: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> None:
    """What pods may do in S3: the hydrator reads its source and fills the copy, a server that loads from it reads it.

    `server_account` is the engine's service account, None where no zone loads from S3.
    """
    copy, source = copy_uri(name, args), args.get("weights_source") or ""
    tags = args.get("tags") or {}
    reads = [uri for uri in (source if source.startswith(_S3) else "", copy) if uri]
    if reads:
        hydrator: WeightAccessArgs = {
            "cluster_name": cluster.cluster_name,
            "namespace": namespace,
            "service_account": HYDRATOR_ACCOUNT,
            "reads": reads,
            "writes": [copy] if copy else [],
            "tags": tags,
        }
        WeightAccess(f"{name}-hydrator", hydrator, opts)
    if server_account is not None and copy:
        server: WeightAccessArgs = {
            "cluster_name": cluster.cluster_name,
            "namespace": namespace,
            "service_account": server_account,
            "reads": [copy],
            "tags": tags,
        }
        WeightAccess(f"{name}-server", server, opts)


def hydration_args(
    name: str,
    args: ModelServerArgs,
    network: Network,
    cluster: Cluster,
    namespace: pulumi.Input[str],
    places: Sequence[tuple[str, str, WeightVolume]],
) -> WeightHydrationArgs:
    """The arguments for `places`: zone, what tells the volume from the zone's others, and the volume."""
    zones = [zone for zone, _, _ in places]
    at = [sorted(set(args["network_zones"])).index(zone) for zone in zones]
    hydration: WeightHydrationArgs = {
        "namespace": namespace,
        "model": args["model"],
        "region": args["region"],
        "volume_mib_per_s": args["volume_throughput_mib_per_s"],
        "places": [zone + suffix for zone, suffix, _ in places],
        "zones": zones,
        "claim_names": [f"{name}-weights-{zone}{suffix}" for zone, suffix, _ in places],
        "volume_ids": pulumi.Output.all(*(volume.volume_id for _, _, volume in places)),
        "pool": name,
        "cluster_name": cluster.cluster_name,
        "kubernetes_version": args["kubernetes_version"],
        "node_role_arn": cluster.node_role_arn,
        "subnet_ids": network.private_subnet_ids.apply(lambda ids: [ids[one] for one in at]),
        "tags": args.get("tags") or {},
    }
    if (source := args.get("weights_source")) is not None:
        hydration["source"] = source
    if (revision := args.get("weights_revision")) is not None:
        hydration["revision"] = revision
    if (hydrate_on := args.get("hydrate_on")) is not None:
        hydration["hydrate_on"] = hydrate_on
    if (token := args.get("hub_token")) is not None:
        hydration["token"] = token
    if (endpoint := args.get("hub_endpoint")) is not None:
        hydration["endpoint"] = endpoint
    if copy := copy_uri(name, args):
        hydration["copy_to"] = copy
    return hydration

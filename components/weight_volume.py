"""The disk that keeps a model's weights in one zone while no GPU runs."""

from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.objects import KubernetesObject
from serving.manifests.labels import CSI_VOLUME_TAG
from serving.manifests.volume import persistent_volume, persistent_volume_claim

# gp3 limits (EBS user guide, 2026-11): 1–65,536 GiB, 3,000–80,000 IOPS, 125–2,000 MiB/s, 0.25 MiB/s for each IOPS.
LARGEST_GIB = 65_536
IOPS_RANGE = (3_000, 80_000)
THROUGHPUT_RANGE = (125, 2_000)
IOPS_PER_MIB_PER_S = 4
CHANGES_PER_DAY = 4
"""Changes of one volume that EBS allows in any 24 hours, each after the one before it is complete (ModifyVolume)."""


class WeightVolumeArgs(TypedDict):
    """Arguments of `WeightVolume`."""

    zone: str
    """The availability zone by name; the volume can be attached nowhere else."""
    size_gib: int
    """GiB of the volume."""
    throughput_mib_per_s: int
    """MiB a second, 125 to 2,000."""
    iops: NotRequired[int]
    """Operations a second. Default: the fewest that the throughput needs."""
    model: str
    """The model whose weights it keeps; becomes a tag."""
    source: str
    """Where the weights come from, such as `moonshotai/Kimi-K2.5`; becomes a tag."""
    namespace: pulumi.Input[str]
    """The Kubernetes namespace of the claim."""
    claim_name: str
    """Name of the claim and of the persistent volume."""
    snapshot_id: NotRequired[str]
    """A snapshot to start from, `snap-…`. Default: an empty volume."""
    speed_changes: NotRequired[bool]
    """Whether jobs raise and lower throughput and IOPS; an update then leaves both as they are. Default: false."""
    tags: NotRequired[dict[str, str]]
    """Tags of the volume."""


class WeightVolume(pulumi.ComponentResource):
    """An encrypted gp3 volume, protected from destroy and kept when it leaves the state, with its volume and claim."""

    volume_id: pulumi.Output[str]
    """The EBS volume's id."""
    claim_name: pulumi.Output[str]
    """The claim that pods mount."""

    def __init__(self, name: str, args: WeightVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the volume; the Kubernetes objects use the provider in `opts`."""
        super().__init__("dormouse:index:WeightVolume", name, {}, opts)
        given = Arguments("WeightVolume", args)
        zone = given.text("zone")
        size_gib = given.whole_number("size_gib", None, 1, LARGEST_GIB)
        throughput = given.whole_number("throughput_mib_per_s", None, *THROUGHPUT_RANGE)
        iops = given.whole_number("iops", iops_for(throughput), *IOPS_RANGE)
        if iops < throughput * IOPS_PER_MIB_PER_S:
            given.fault("iops", f"got {iops} with {throughput} MiB/s; accepted: {iops_for(throughput)} or more")
        model = given.text("model")
        source = given.text("source")
        namespace = given.required("namespace")
        claim_name = given.text("claim_name")
        snapshot_id = given.optional_text("snapshot_id")
        # Only where a job changes them: everywhere else the configuration is what the volume has.
        left_to_jobs = ["throughput", "iops"] if args.get("speed_changes") else []
        given.check()

        volume = aws.ebs.Volume(
            name,
            availability_zone=zone,
            type="gp3",
            size=size_gib,
            throughput=throughput,
            iops=iops,
            encrypted=True,
            snapshot_id=snapshot_id,
            tags={
                **given.tags(),
                "Name": name,
                CSI_VOLUME_TAG: "true",
                "dormouse.dev/model": model,
                "dormouse.dev/source": source,
            },
            # protect stops a destroy; retain_on_delete keeps the disk when somebody takes the protection off.
            opts=pulumi.ResourceOptions(parent=self, protect=True, retain_on_delete=True, ignore_changes=left_to_jobs),
        )
        labels = {"app.kubernetes.io/managed-by": "dormouse", "dormouse.dev/model": model}
        manifest: dict[str, Any] = persistent_volume(claim_name, namespace, claim_name, zone, size_gib, labels)
        manifest["spec"]["csi"]["volumeHandle"] = volume.id
        inside = KubernetesObject(f"{name}-volume", manifest, pulumi.ResourceOptions(parent=self))
        claim = KubernetesObject(
            f"{name}-claim",
            persistent_volume_claim(claim_name, namespace, claim_name, size_gib, labels),
            pulumi.ResourceOptions(parent=self, depends_on=[inside]),
        )

        self.volume_id = volume.id
        self.claim_name = claim.id.apply(lambda _: claim_name)
        self.register_outputs({"volumeId": self.volume_id, "claimName": self.claim_name})


def iops_for(throughput_mib_per_s: int) -> int:
    """The fewest IOPS that gp3 needs for `throughput_mib_per_s`."""
    return max(IOPS_RANGE[0], throughput_mib_per_s * IOPS_PER_MIB_PER_S)

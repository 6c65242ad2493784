"""A recipe that bakes the engine's image into a disk, so that a wake pulls nothing: what to run, in order, and why.

Nothing here is run by Dormouse, and no recipe has been tried on a live account; each step says how to check it.
"""

from dataclasses import dataclass

from serving.runtime import pinned_runtime

KINDS = ("data-volume", "ami")
_DEVICE = "/dev/xvdb"
_SIZE_GIB = 100


@dataclass(frozen=True)
class RecipeStep:
    """One step: what it does, where it runs, and the text to run or to write."""

    title: str
    where: str
    text: str


@dataclass(frozen=True)
class ImageRecipe:
    """The steps of one kind, its caveats, and the image that is baked."""

    kind: str
    image: str
    steps: tuple[RecipeStep, ...]
    caveats: tuple[str, ...]


def image_recipe(kind: str, region: str, zone: str, kubernetes_version: str) -> ImageRecipe:
    """The recipe of `kind`, one of `KINDS`, for `zone` of `region` and nodes of `kubernetes_version`."""
    image = pinned_runtime().vllm_image
    pull = _PULL.format(image=f"docker.io/{image}", device=_DEVICE)
    if kind == "ami":
        steps = (
            RecipeStep("Start a small builder from the EKS image that the nodes use", "your machine", _builder(region, kubernetes_version, "")),
            RecipeStep("Pull the image into the builder's root disk", "the builder", _PULL_ROOT.format(image=f"docker.io/{image}")),
            RecipeStep("Make the AMI and end the builder", "your machine", _AMI.format(region=region)),
        )  # fmt: skip
        caveats = (
            (
                "EKS merges no user data into a launch template that names an AMI: NodeConfig must then carry the cluster's"
                " name, endpoint and certificate. Dormouse's node groups name no AMI, so this one is for groups of your own."
            ),
            *_CAVEATS,
        )
        return ImageRecipe(kind, image, steps, caveats)
    steps = (
        RecipeStep(
            "Start a small builder with a second disk",
            "your machine",
            _builder(region, kubernetes_version, f" \\\n  --placement AvailabilityZone={zone}" + _SECOND_DISK),
        ),
        RecipeStep("Pull the image onto that disk", "the builder", pull),
        RecipeStep("Make the snapshot and end the builder", "your machine", _SNAPSHOT.format(region=region)),
        RecipeStep("Give nodes a disk from it: block device mapping of the launch template", "the template", _MAPPING),
        RecipeStep("Use it as containerd's store: part of the user data", "the template", _USER_DATA),
    )
    return ImageRecipe(kind, image, steps, _CAVEATS)


_CAVEATS = (
    "Parallel pull (FastImagePull) keeps its own store: with a baked image set dormouse:imagePull to standard.",
    (
        "A disk from a snapshot is read from S3 at first touch, at a rate that AWS does not publish unless"
        " VolumeInitializationRate (100 to 300 MiB/s) is set; for 20 GB at 300 MiB/s that is 1.1 min. A bake gains"
        " little over a pull from ECR, and everything over a Docker Hub that is down or limits you."
    ),
    "Bake again for every release of Dormouse that pins another image; a stale bake costs a pull, not a failure.",
)


def _builder(region: str, kubernetes_version: str, more: str) -> str:
    parameter = (
        f"/aws/service/eks/optimized-ami/{kubernetes_version}/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    )
    return (
        f"ami=$(aws ssm get-parameter --region {region} --query Parameter.Value --output text \\\n  --name {parameter})\n"
        f"builder=$(aws ec2 run-instances --region {region} --image-id $ami --instance-type m7i.xlarge \\\n"
        "  --iam-instance-profile Name=YOUR-SSM-PROFILE --query 'Instances[0].InstanceId' --output text"
        f"{more})\naws ssm start-session --region {region} --target $builder"
    )


_SECOND_DISK = f" \\\n  --block-device-mappings 'DeviceName={_DEVICE},Ebs={{VolumeSize={_SIZE_GIB},VolumeType=gp3,Encrypted=true}}'"
_PULL = """\
set -eu
disk=$(readlink -f {device})
mkfs.xfs -L containerd $disk
systemctl stop containerd kubelet
mount $disk /var/lib/containerd
systemctl start containerd
ctr --namespace k8s.io images pull --snapshotter overlayfs {image}
ctr --namespace k8s.io images ls name=={image}       # check: one line
systemctl stop containerd && umount /var/lib/containerd && sync"""
_PULL_ROOT = """\
set -eu
systemctl start containerd
ctr --namespace k8s.io images pull --snapshotter overlayfs {image}
ctr --namespace k8s.io images ls name=={image}       # check: one line
systemctl stop containerd && rm -rf /var/lib/cloud/instances && sync"""
_SNAPSHOT = """\
volume=$(aws ec2 describe-instances --region {region} --instance-ids $builder --output text \\
  --query "Reservations[0].Instances[0].BlockDeviceMappings[?DeviceName=='/dev/xvdb'].Ebs.VolumeId")
snapshot=$(aws ec2 create-snapshot --region {region} --volume-id $volume --description dormouse-image \\
  --query SnapshotId --output text)
aws ec2 wait snapshot-completed --region {region} --snapshot-ids $snapshot
aws ec2 terminate-instances --region {region} --instance-ids $builder
echo $snapshot"""
_AMI = """\
image=$(aws ec2 create-image --region {region} --instance-id $builder --name dormouse-image-$(date +%Y%m%d) \\
  --query ImageId --output text)
aws ec2 wait image-available --region {region} --image-ids $image
aws ec2 terminate-instances --region {region} --instance-ids $builder
echo $image"""
_MAPPING = f"""\
DeviceName: {_DEVICE}
Ebs:
  SnapshotId: snap-...            # of the step before
  VolumeSize: {_SIZE_GIB}
  VolumeType: gp3
  Throughput: 1000
  Iops: 4000
  VolumeInitializationRate: 300
  DeleteOnTermination: true"""
_USER_DATA = """\
Content-Type: text/x-shellscript

#!/bin/sh
set -eu
mkdir -p /var/lib/containerd
mount -L containerd /var/lib/containerd

Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
      disabledMounts: [Containerd]    # else the array hides the baked store"""

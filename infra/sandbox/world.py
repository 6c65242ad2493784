"""The sandbox's process: a simulated AWS and a simulated Kubernetes control plane that know of each other.

    python -m infra.sandbox.world --folder DIR --speed 120

runs until SIGTERM. Instances of the simulated EC2 become nodes, pods' volumes are attached in the simulated EC2, and
the API server asks the simulated STS who a token belongs to.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from infra.clock import Clock, ScaledClock
from infra.jobs.eks_token import eks_token
from infra.sandbox.cloud.durations import Durations
from infra.sandbox.cloud.identity import access_entries, kubernetes_user, principal_of_token
from infra.sandbox.cloud.nodes import nodes_from_cloud
from infra.sandbox.cloud.server import CloudServer
from infra.sandbox.kubernetes.server import KubernetesServer
from infra.sandbox.state import remove_state, write_state
from serving.errors import DormouseError
from serving.manifests.labels import CSI_VOLUME_TAG

REGION = "us-east-2"
ACCESS_KEY = "testing"
_DEVICE = "/dev/xvdba"


class SimulatedDenialError(DormouseError):
    """The simulated IAM refuses a call."""


@dataclass(frozen=True)
class World:
    """The open servers of a sandbox."""

    cloud: CloudServer
    kubernetes: KubernetesServer


@contextmanager
def world(
    clock: Clock, region: str = REGION, durations: Durations | None = None, *, volumes_full: bool = True
) -> Generator[World]:
    """A simulated AWS account and a control plane for the one cluster in it, open while the block runs.

    - `volumes_full`: whether weight volumes count as filled and proven from the start.
    """
    timing = durations or Durations()
    with CloudServer(clock, timing, region=region) as cloud:
        ec2 = simulated_client("ec2", cloud.endpoint_url, region)
        eks = simulated_client("eks", cloud.endpoint_url, region)

        def cluster_name() -> str | None:
            names: list[str] = eks.list_clusters()["clusters"]
            return names[0] if names else None

        def nodes() -> list[dict[str, Any]]:
            name = cluster_name()
            return [] if name is None else nodes_from_cloud(ec2, eks, name, clock.now(), timing.instance_join_s)

        def authenticate(token: str) -> tuple[str, list[str]] | None:
            name = cluster_name()
            principal = None if name is None else principal_of_token(token, name)
            if name is None or principal is None:
                return None
            user = kubernetes_user(principal, access_entries(name, region))
            return None if user is None else (user[0], list(user[1]))

        def attach(volume_id: str, node: dict[str, Any]) -> None:
            _require_driver_tag(ec2, volume_id)
            ec2.attach_volume(VolumeId=volume_id, InstanceId=_instance_id(node), Device=_DEVICE)

        def detach(volume_id: str, node: dict[str, Any]) -> None:
            ec2.detach_volume(VolumeId=volume_id, InstanceId=_instance_id(node))

        with KubernetesServer(
            clock,
            nodes=nodes,
            authenticate=authenticate,
            attach=attach,
            detach=detach,
            volumes_full=volumes_full,
            volume_origin=lambda volume_id: _origin(ec2, volume_id),
        ) as kubernetes:
            cloud.admin.set_kubernetes(kubernetes.url, kubernetes.certificate_authority_data)
            yield World(cloud, kubernetes)


def simulated_client(service: str, endpoint_url: str, region: str = REGION) -> Any:
    """A boto3 client of the simulated AWS; it never uses the machine's own credentials."""
    # boto3's own types know services by literal names alone.
    session: Any = boto3
    return session.client(
        service,
        region_name=region,
        endpoint_url=endpoint_url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=ACCESS_KEY,
        config=Config(retries={"total_max_attempts": 2}),
    )


def sandbox_token(cluster_name: str, region: str) -> str:
    """A token for the simulated API server, as the account's own user."""
    session = boto3.Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=region)
    return eks_token(session, cluster_name, region)


def _require_driver_tag(ec2: Any, volume_id: str) -> None:
    """Refuse as AmazonEBSCSIDriverPolicyV2 does: the EBS CSI driver may attach volumes that carry its tag alone."""
    (volume,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    if {"Key": CSI_VOLUME_TAG, "Value": "true"} not in volume.get("Tags", []):
        raise SimulatedDenialError(
            f"UnauthorizedOperation: You are not authorized to perform this operation. The EBS CSI driver's role may not"
            f" ec2:AttachVolume on {volume_id}: its policy asks for the volume tag {CSI_VOLUME_TAG}: true"
        )


def _origin(ec2: Any, volume_id: str) -> str | None:
    """The volume whose snapshot a volume was made of; None where it was made empty, or EC2 does not know."""
    try:
        (volume,) = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
        if volume.get("SourceVolumeId") or not volume.get("SnapshotId"):
            return volume.get("SourceVolumeId")
        (snapshot,) = ec2.describe_snapshots(SnapshotIds=[volume["SnapshotId"]])["Snapshots"]
    except ClientError:
        return None
    return str(snapshot["VolumeId"])


def _instance_id(node: dict[str, Any]) -> str:
    return str(node["spec"]["providerID"]).rsplit("/", 1)[-1]


def serve(folder: Path, speed: float, *, volumes_full: bool = True) -> None:
    """Open a world, write its state to `folder`, and stay until SIGTERM or SIGINT."""
    now = time.time()
    clock = ScaledClock(origin_unix_s=now, origin_simulated_unix_s=now, speed=speed)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    with world(clock, volumes_full=volumes_full) as servers:
        write_state(
            {
                "pid": os.getpid(),
                "awsEndpointUrl": servers.cloud.endpoint_url,
                "adminUrl": servers.cloud.admin_url,
                "kubernetesUrl": servers.kubernetes.url,
                "clock": {
                    "originUnixS": clock.origin_unix_s,
                    "originSimulatedUnixS": clock.origin_simulated_unix_s,
                    "speed": clock.speed,
                },
            },
            folder,
        )
        ended.wait()
        remove_state(folder)


def main() -> int:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description="the sandbox's process; `dormouse sandbox up` starts it")
    parser.add_argument("--folder", type=Path, required=True, help="where the state file goes")
    parser.add_argument("--speed", type=float, required=True, help="simulated seconds in one real second")
    parser.add_argument("--empty-volumes", action="store_true", help="weight volumes hold nothing at the start")
    arguments = parser.parse_args()
    serve(arguments.folder, arguments.speed, volumes_full=not arguments.empty_volumes)
    return 0


if __name__ == "__main__":
    sys.exit(main())

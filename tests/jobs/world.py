"""A whole stack for tests of the jobs: the simulated AWS and the API server stand-in over real sockets, a fast clock.

Built by boto3 and the Kubernetes API alone, so that the jobs are tested and not the Pulumi program.
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import boto3

from infra.clock import ScaledClock
from infra.jobs.clients import Clients, connect
from infra.jobs.observation import Observation
from infra.jobs.observe import observe
from infra.outputs import Slot, StackOutputs
from infra.sandbox.cloud import CapacityRule
from infra.sandbox.cloud.durations import Durations
from infra.sandbox.cloud.identity import access_entries, kubernetes_user, principal_of_token
from infra.sandbox.cloud.nodes import nodes_from_cloud
from infra.sandbox.cloud.server import CloudServer
from infra.sandbox.kubernetes.controllers.pod_lifecycle import Durations as PodDurations
from infra.sandbox.kubernetes.server import KubernetesServer

REGION, CLUSTER, NAMESPACE = "us-east-2", "dev", "kimi"
INSTANCE_TYPE = "p5en.48xlarge"
JOIN_S, LOAD_S = 30.0, 120
SPEED = 200.0
BLOCK_ID = "cr-0123456789abcdef0"

_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["eks.amazonaws.com", "ec2.amazonaws.com"]},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
_SLOTS = (("spot-a", "spot", "a", 200), ("ondemand-a", "on-demand", "a", 150), ("ondemand-b", "on-demand", "b", 150))


class World:
    """The stack `dev`: slots spot-a, ondemand-a (one Deployment, zone a) and ondemand-b (zone b)."""

    def __init__(self) -> None:
        now = time.time()
        self.clock = ScaledClock(now, now, SPEED)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        durations = Durations(
            **{**dict.fromkeys(Durations.__dataclass_fields__, 0.0), "node_group_create_timeout_s": 1500.0}
            | {"instance_join_s": JOIN_S, "launch_retry_s": 60.0, "node_group_update_s": 5.0}
        )
        self.cloud = self._stack.enter_context(CloudServer(self.clock, durations))
        self.capacity = self.cloud.simulation.capacity
        session = boto3.Session("testing", "testing", region_name=REGION)
        self._session = session
        self.ec2: Any = session.client("ec2", endpoint_url=self.cloud.endpoint_url)
        self.eks: Any = session.client("eks", endpoint_url=self.cloud.endpoint_url)
        self._make_aws(session.client("iam", endpoint_url=self.cloud.endpoint_url))
        self.kubernetes = self._stack.enter_context(
            KubernetesServer(
                self.clock,
                self._nodes,
                self._authenticate,
                self._attach,
                self._detach,
                durations=PodDurations(5, 2, 10),
            )
        )
        self.cloud.simulation.kubernetes.endpoint = self.kubernetes.url
        self.cloud.simulation.kubernetes.certificate_authority_data = ""
        self.outputs = self._outputs()
        self.clients = self.connect()
        self._make_kubernetes()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> Clients:
        """Fresh clients, as another process would have."""
        return connect(self.outputs, endpoint_url=self.cloud.endpoint_url, simulated=True)

    def observe(self) -> Observation:
        return observe(self.outputs, self.clients, self.clock)

    def refuse(self, zone: str | None = None, purchase: Any = None, code: str | None = None) -> None:
        """Let EC2 refuse from now on."""
        self.capacity.add(CapacityRule("refuse", None, zone, purchase, code))

    def live_instances(self) -> list[str]:
        """GPU instances that are billed now, as EC2 lists them."""
        found = self.ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )["Reservations"]
        return [one["InstanceId"] for reservation in found for one in reservation["Instances"]]

    def launched_ever(self) -> int:
        """How many instances were ever launched."""
        return sum(len(one["Instances"]) for one in self.ec2.describe_instances()["Reservations"])

    def desired(self) -> dict[str, int]:
        return {view.slot.name: int(view.desired or 0) for view in self.observe().slots}

    def replicas(self) -> dict[str, int]:
        return {view.name: int(view.replicas or 0) for view in self.observe().deployments}

    def annotation(self, deployment: str, key: str = "state") -> str:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}"
        return self.clients.kubernetes.get(path)["metadata"].get("annotations", {}).get(f"dormouse.dev/{key}", "")

    def ready_pod(self) -> dict[str, Any]:
        """The pod that serves, as the API server shows it."""
        pods = self.clients.kubernetes.list(f"/api/v1/namespaces/{NAMESPACE}/pods")
        assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
        return pods[0]

    def set_desired(self, slot: str, desired: int) -> None:
        self.eks.update_nodegroup_config(
            clusterName=CLUSTER, nodegroupName=f"gpu-{slot}", scalingConfig={"desiredSize": desired}
        )

    def scale(self, deployment: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}/scale"
        self.clients.kubernetes.patch(path, {"spec": {"replicas": replicas}})

    def wait(self, what: str, reached: Callable[[], Any], simulated_s: float = 2000.0) -> Any:
        """Wait until `reached()` is true."""
        end = self.clock.monotonic_s() + simulated_s
        while self.clock.monotonic_s() < end:
            found = reached()
            if found:
                return found
            time.sleep(0.03)
        raise AssertionError(f"not reached: {what}")

    def reset(self) -> None:
        """Back to asleep, whatever a test has left."""
        self.capacity.rules.clear()
        for name in ("vllm-a", "vllm-b"):
            self.scale(name, 0)
        for name, *_ in _SLOTS:
            self.wait("node group is idle", lambda n=name: self.status(n) == "ACTIVE")
            if self.desired()[name]:
                self.set_desired(name, 0)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        for one in self.clients.kubernetes.list(lease):
            self.clients.kubernetes.delete(f"{lease}/{one['metadata']['name']}")
        for one in self.clients.kubernetes.list(f"/api/v1/namespaces/{NAMESPACE}/pods"):
            self.clients.kubernetes.delete(
                f"/api/v1/namespaces/{NAMESPACE}/pods/{one['metadata']['name']}", grace_period_s=0
            )
        self.wait(
            "asleep",
            lambda: (
                not self.live_instances()
                and not self.clients.kubernetes.list("/api/v1/nodes")
                and not self.observe().pods
                and all(one.state == "available" for one in self.observe().volumes)
            ),
        )

    def status(self, slot: str) -> str:
        return self.eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=f"gpu-{slot}")["nodegroup"]["status"]

    def _make_aws(self, iam: Any) -> None:
        role = iam.create_role(RoleName="dev", AssumeRolePolicyDocument=_TRUST)["Role"]["Arn"]
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = {
            letter: self.ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=f"{REGION}{letter}"
            )["Subnet"]["SubnetId"]
            for index, letter in enumerate("ab")
        }
        self.eks.create_cluster(
            name=CLUSTER,
            version="1.36",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": list(self.subnets.values())},
            accessConfig={"authenticationMode": "API"},
        )
        self.eks.get_waiter("cluster_active").wait(name=CLUSTER, WaiterConfig={"Delay": 0})
        for name, purchase, letter, _ in _SLOTS:
            self.eks.create_nodegroup(
                clusterName=CLUSTER,
                nodegroupName=f"gpu-{name}",
                scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
                subnets=[self.subnets[letter]],
                nodeRole=role,
                instanceTypes=[INSTANCE_TYPE],
                capacityType="SPOT" if purchase == "spot" else "ON_DEMAND",
                taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
            )
            self.eks.get_waiter("nodegroup_active").wait(
                clusterName=CLUSTER, nodegroupName=f"gpu-{name}", WaiterConfig={"Delay": 0}
            )
        self.volumes = {
            letter: self.ec2.create_volume(
                AvailabilityZone=f"{REGION}{letter}", Size=700, VolumeType="gp3", Throughput=1000, Iops=4000
            )["VolumeId"]
            for letter in "ab"
        }

    def _outputs(self) -> StackOutputs:
        return StackOutputs(
            environment="dev",
            region=REGION,
            account_id="123456789012",
            cluster_name=CLUSTER,
            namespace=NAMESPACE,
            service_name="kimi",
            service_port=8080,
            model="moonshotai/Kimi-K2.5",
            served_model_name="kimi-k2.5",
            api_key_secret_name="kimi-key",
            slots=tuple(
                Slot(
                    name=name,
                    purchase=purchase,
                    instance_type=INSTANCE_TYPE,
                    zone=f"{REGION}{letter}",
                    zone_id=f"use2-az{'ab'.index(letter) + 1}",
                    node_group_name=f"gpu-{name}",
                    deployment_name=f"vllm-{letter}",
                    volume_id=self.volumes[letter],
                    patience_s=patience_s,
                    usd_per_hour=None if purchase == "spot" else 63.30,
                )
                for name, purchase, letter, patience_s in _SLOTS
            ),
            gpus_per_node=8,
            startup_window_s=2400,
            drain_s=600,
            planned_load_s=LOAD_S,
            weights_bytes=595_000_000_000,
            kv_cache_tokens=1_000_000,
            access="cluster",
            asleep_usd_per_day=4.2,
        )

    def _make_kubernetes(self) -> None:
        api = self.clients.kubernetes
        api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        labels = {
            "app.kubernetes.io/name": "vllm",
            "app.kubernetes.io/instance": "kimi",
            "dormouse.dev/accepting": "true",
        }
        service = {"selector": labels, "ports": [{"name": "http", "port": 8080, "targetPort": 8080}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kimi"}, "spec": service}
        api.create(f"/api/v1/namespaces/{NAMESPACE}/services", body)
        for letter, volume_id in self.volumes.items():
            for collection, body in _manifests(letter, f"{REGION}{letter}", volume_id, labels):
                api.create(collection, body)

    def _nodes(self) -> list[dict[str, Any]]:
        return nodes_from_cloud(self.ec2, self.eks, CLUSTER, self.clock.now(), JOIN_S)

    def _authenticate(self, token: str) -> tuple[str, list[str]] | None:
        principal = principal_of_token(token, CLUSTER)
        user = kubernetes_user(principal, access_entries(CLUSTER, REGION)) if principal else None
        return (user[0], list(user[1])) if user else None

    def _attach(self, volume_id: str, node: dict[str, Any]) -> None:
        instance_id = node["spec"]["providerID"].rsplit("/", 1)[1]
        self.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/xvdba")

    def _detach(self, volume_id: str, node: dict[str, Any]) -> None:
        instance_id = node["spec"]["providerID"].rsplit("/", 1)[1]
        self.ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)


def _manifests(letter: str, zone: str, volume_id: str, labels: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Volume, claim and Deployment of one zone, with the place where each is created."""
    selector = {key: labels[key] for key in list(labels)[:2]} | {"dormouse.dev/zone": zone}
    size = {"storage": "700Gi"}
    volume = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume_id, "fsType": "ext4"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}
                ]
            }
        },
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": f"weights-{letter}",
        "resources": {"requests": size},
    }
    pod = {
        "terminationGracePeriodSeconds": 120,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "initContainers": [
            {"name": "gateway", "image": "nginx:1.29", "restartPolicy": "Always", "ports": [{"containerPort": 8080}]}
        ],
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.32.0",
                "ports": [{"containerPort": 8000}],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
                "volumeMounts": [{"name": "weights", "mountPath": "/weights", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": f"weights-{letter}"}}],
    }
    template = {
        "metadata": {
            "labels": {**labels, "dormouse.dev/zone": zone},
            "annotations": {"dormouse.dev/planned-load-s": str(LOAD_S)},
        },
        "spec": pod,
    }
    deployment = {
        "replicas": 0,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector},
        "template": template,
    }
    here = f"namespaces/{NAMESPACE}"
    return [
        ("/api/v1/persistentvolumes", _object("v1", "PersistentVolume", f"weights-{letter}", volume)),
        (f"/api/v1/{here}/persistentvolumeclaims", _object("v1", "PersistentVolumeClaim", f"weights-{letter}", claim)),
        (f"/apis/apps/v1/{here}/deployments", _object("apps/v1", "Deployment", f"vllm-{letter}", deployment)),
    ]


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}

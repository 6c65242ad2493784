import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from infra.clock import ScaledClock
from infra.sandbox.cloud import Durations, install
from infra.sandbox.cloud.admin import CloudAdmin
from infra.sandbox.cloud.server import CloudServer
from serving.errors import DormouseError
from tests.sandbox.cloud.world import REGION, SESSION, HandClock, World

_REPOSITORY = Path(__file__).parents[3]


def test_a_process_of_its_own_follows_a_fast_clock_and_ends_cleanly() -> None:
    command = [sys.executable, "-m", "infra.sandbox.cloud.server", "--speed", "5000"]
    environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY)}
    with subprocess.Popen(
        command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            urls = json.loads(process.stdout.readline())
            admin = CloudAdmin(urls["admin_url"])
            clock = admin.clock()
            assert clock == ScaledClock(urls["origin_unix_s"], urls["origin_simulated_unix_s"], 5000.0)
            ec2 = SESSION.client("ec2", endpoint_url=urls["endpoint_url"])
            zones = ec2.describe_availability_zones()["AvailabilityZones"]
            assert [zone["ZoneId"] for zone in zones] == ["use2-az1", "use2-az2", "use2-az3"]
            before = clock.now()
            made = ec2.create_volume(AvailabilityZone="us-east-2a", Size=10)["CreateTime"]
            assert before.timestamp() - 1 <= made.timestamp() <= clock.now().timestamp()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=15) == 0
        assert process.stderr.read() == ""


def test_one_cloud_in_a_process() -> None:
    with CloudServer(HandClock()) as first:
        with (
            pytest.raises(DormouseError, match="runs a simulated cloud on port"),
            CloudServer(HandClock()),
        ):
            pass
        assert World(first, HandClock()).eks.list_clusters()["clusters"] == []


def test_every_cloud_starts_empty_and_frees_its_ports() -> None:
    for _ in range(2):
        with CloudServer(HandClock(), Durations.instant()) as server:
            world = World(server, HandClock())
            assert world.cluster(wait=False)["status"] == "ACTIVE"
            world.node_group(wait=False)
            assert world.scale(1)["status"] == "Successful"
            assert world.describe()["status"] == "ACTIVE"
            admin_url = server.admin_url
        with pytest.raises(DormouseError, match="no simulated cloud answers"):
            CloudAdmin(admin_url).kubernetes()


def test_within_one_process_without_a_server() -> None:
    clock = HandClock()
    simulation = install(clock)
    simulation.kubernetes.endpoint = "https://127.0.0.1:6443"
    with mock_aws():
        session = boto3.Session("testing", "testing", region_name=REGION)
        ec2, eks, iam = (session.client(name) for name in ("ec2", "eks", "iam"))
        vpc_id = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet_ids = [
            ec2.create_subnet(VpcId=vpc_id, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"us-east-2{letter}")[
                "Subnet"
            ]["SubnetId"]
            for number, letter in enumerate("ab")
        ]
        trust = json.dumps(
            {
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
                ]
            }
        )
        role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        eks.create_cluster(name="dev", roleArn=role, resourcesVpcConfig={"subnetIds": subnet_ids})
        clock.sleep(540)
        cluster = eks.describe_cluster(name="dev")["cluster"]
        assert (cluster["status"], cluster["endpoint"]) == ("ACTIVE", "https://127.0.0.1:6443")
    with mock_aws():
        assert session.client("eks").list_clusters()["clusters"] == []


def test_waiting_times_pass_as_they_should() -> None:
    started = time.monotonic()
    clock = ScaledClock(time.time(), 0.0, 2000.0)
    with CloudServer(clock) as server:
        world = World(server, HandClock())
        world.cluster(wait=False)
        waiter = world.eks.get_waiter("cluster_active")
        waiter.wait(name="dev", WaiterConfig={"Delay": 1, "MaxAttempts": 20})
    assert time.monotonic() - started >= server.durations.cluster_create_s / 2000.0

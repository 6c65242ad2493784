"""One stack with a Capacity Block, spot and on-demand: filled, woken on each of them, and put to sleep again.

The cloud's clock runs fast and the jobs go by this machine's, so the block is first ahead of both and later behind both.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes.client import ApiClient, BatchV1Api

from infra.sandbox.cloud.capacity import CapacityBlock, CapacityRule
from serving.manifests.hydrate import HYDRATE_TAINT_KEY

from .cloud_process import CloudProcess
from .control_plane import HYDRATOR_LAST_WORDS, ControlPlane
from .dev_stack import CLUSTER, NAMESPACE, World, assert_nothing_to_do, capacities, dev_stack
from .node_bridge import NodeBridge
from .waiting import wait_until

BLOCK_ID = "cr-0123456789abcdef0"
BLOCK, SPOT, ON_DEMAND = "capacity-block-use2-az1-bcdef0", "spot-use2-az1", "on-demand-use2-az1"
AHEAD = timedelta(days=30)


@pytest.fixture(scope="module")
def block(cloud: CloudProcess) -> CapacityBlock:
    """A block that the account has bought and that begins in a while."""
    start = (cloud.clock.now() + AHEAD).replace(microsecond=0)
    bought = CapacityBlock(BLOCK_ID, "p5en.48xlarge", "us-east-2a", start, start + timedelta(days=14))
    cloud.admin.add_capacity_block(bought)
    return bought


@pytest.fixture(scope="module")
def world(
    engine_bin: Any,
    block: CapacityBlock,
    cloud: CloudProcess,
    control_plane: ControlPlane,
    kubernetes_client: ApiClient,
    node_bridge: NodeBridge,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    capacity = [
        {"purchase": "capacity-block", "zone": "use2-az1", "reservationId": BLOCK_ID},
        {"purchase": "spot", "zone": "use2-az1"},
        {"purchase": "on-demand", "zone": "use2-az1"},
    ]
    folder = tmp_path_factory.mktemp("purchase-modes")
    with dev_stack(folder, engine_bin, cloud, kubernetes_client, capacity) as made:
        yield made
    for volume in made.volumes():
        cloud.client("ec2").delete_volume(VolumeId=volume["VolumeId"])


@contextmanager
def refused(world: World, purchase: str, code: str) -> Iterator[None]:
    """No machine of that purchase while it lasts."""
    rule = world.cloud.admin.add_capacity_rule(
        CapacityRule(instance_type="p5en.48xlarge", purchase=purchase, code=code)
    )
    try:
        yield
    finally:
        world.cloud.admin.remove_capacity_rule(rule.rule_id)


def wake(world: World) -> dict[str, Any]:
    return json.loads(world.dormouse("wake", "--stack", "dev", "--json").stdout)


def hibernate(world: World, *arguments: str) -> None:
    slept = json.loads(world.dormouse("hibernate", "--stack", "dev", "--json", *arguments).stdout)
    assert slept["state"] == "asleep"
    assert world.gpu_instances() == []
    assert world.pods() == []
    wait_until(lambda: "nvidia.com/gpu" not in capacities(world), "the GPU node has gone")


def desired(world: World) -> dict[str, int]:
    return {slot: world.group(slot)["scalingConfig"]["desiredSize"] for slot in (BLOCK, SPOT, ON_DEMAND)}


def test_preview_says_when_the_block_begins(world: World, block: CapacityBlock) -> None:
    run = world.stack.preview()
    said = "\n".join([*run.messages("info"), *run.messages("warning")])
    assert BLOCK_ID in said
    assert f"{block.start:%Y-%m-%d %H:%M}" in said
    assert run.changes == {"create": run.creates}


def test_each_purchase_is_a_node_group_of_its_kind(world: World) -> None:
    world.stack.up()
    kinds = {slot: world.group(slot)["capacityType"] for slot in (BLOCK, SPOT, ON_DEMAND)}
    assert kinds == {BLOCK: "CAPACITY_BLOCK", SPOT: "SPOT", ON_DEMAND: "ON_DEMAND"}
    template = world.group(BLOCK)["launchTemplate"]
    versions = world.cloud.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=[str(template["version"])]
    )
    data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert data["CapacityReservationSpecification"]["CapacityReservationTarget"] == {"CapacityReservationId": BLOCK_ID}
    assert desired(world) == {BLOCK: 0, SPOT: 0, ON_DEMAND: 0}
    assert_nothing_to_do(world.stack.preview())


def test_the_weights_are_filled_by_a_small_machine_that_goes_again(world: World, kubernetes_client: ApiClient) -> None:
    (volume,) = world.volumes()
    filled = json.loads(world.dormouse("weights", "hydrate", "--stack", "dev", "--json").stdout)
    assert filled["state"] == "verified"
    assert HYDRATOR_LAST_WORDS["message"] in filled["sentence"]
    (job,) = BatchV1Api(kubernetes_client).list_namespaced_job(NAMESPACE).items
    assert job.status.succeeded == 1
    (after,) = world.volumes()
    tags = {tag["Key"]: tag["Value"] for tag in after["Tags"]}
    assert tags["dormouse.dev/weights"].startswith("verified")
    assert after["VolumeId"] == volume["VolumeId"]
    eks = world.cloud.client("eks")
    names = eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"]
    groups = [eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"] for name in names]
    (small,) = [group for group in groups if HYDRATE_TAINT_KEY in {one["key"] for one in group.get("taints", [])}]
    assert small["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}
    assert world.gpu_instances() == []

    again = json.loads(world.dormouse("weights", "hydrate", "--stack", "dev", "--json").stdout)
    assert again["changed"] is False


def test_before_its_start_the_block_is_not_asked_and_spot_serves(world: World, block: CapacityBlock) -> None:
    woken = wake(world)
    assert woken["slot"] == SPOT
    (refusal,) = woken["refusals"]
    assert (refusal["slot"], f"starts at {block.start:%Y-%m-%d %H:%M} UTC" in refusal["words"]) == (BLOCK, True)
    (instance,) = world.gpu_instances()
    assert instance["InstanceLifecycle"] == "spot"
    hibernate(world)


def test_where_spot_has_nothing_on_demand_serves(world: World) -> None:
    with (
        refused(world, "spot", "MaxSpotInstanceCountExceeded"),
        refused(world, "capacity-block", "ReservationCapacityExceeded"),
    ):
        woken = wake(world)
    assert woken["slot"] == ON_DEMAND
    assert [one["slot"] for one in woken["refusals"]] == [BLOCK, SPOT]
    assert desired(world) == {BLOCK: 0, SPOT: 0, ON_DEMAND: 1}
    (instance,) = world.gpu_instances()
    assert "InstanceLifecycle" not in instance
    hibernate(world)


def test_from_its_start_the_block_serves_and_sleeps_only_when_told_so(world: World, block: CapacityBlock) -> None:
    world.cloud.admin.add_capacity_block(replace(block, start=datetime.now(UTC) - timedelta(hours=1)))
    woken = wake(world)
    assert woken["refusals"] == []
    assert woken["slot"] == BLOCK
    (instance,) = world.gpu_instances()
    assert instance["InstanceLifecycle"] == "capacity-block"
    assert instance["CapacityReservationId"] == BLOCK_ID
    assert_nothing_to_do(world.stack.preview())

    # It is paid for to its end, so putting it to sleep would only cost the next wake.
    told = world.dormouse("hibernate", "--stack", "dev", accepted=(1,))
    assert "prepaid" in told.stderr
    assert "--prepaid" in told.stderr
    assert len(world.gpu_instances()) == 1
    hibernate(world, "--prepaid")
    assert desired(world) == {BLOCK: 0, SPOT: 0, ON_DEMAND: 0}

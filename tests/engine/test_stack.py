"""The dev stack on Pulumi's own engine: made, changed, woken, put to sleep, broken, mended and destroyed.

One stack lives through this file, since each `up` takes twenty seconds; every test leaves it as it found it, and the
last one destroys it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient

from .cloud_process import CloudProcess
from .control_plane import ControlPlane
from .dev_stack import CLUSTER, NAMESPACE, World, assert_nothing_to_do, billed, capacities, dev_stack
from .node_bridge import NodeBridge
from .pulumi_cli import PulumiCommandError
from .waiting import wait_until

HERE, THERE = "kimi-k2-5-us-east-2a", "kimi-k2-5-us-east-2b"
FIRST, SECOND, ELSEWHERE = "spot-use2-az1", "on-demand-use2-az1", "on-demand-use2-az2"


USUAL = {
    "dormouse:instanceType": "p5en.48xlarge",
    "dormouse:kvCacheDtype": "auto",
    "dormouse:maxSequences": "64",
    "dormouse:owner": "platform-team@example.com",
    "dormouse:timeZone": "America/New_York",
    "dormouse:weightsSource": "huggingface",
    "dormouse:weightsThroughputMibps": "1000",
}


@contextmanager
def configured(world: World, **changes: str) -> Iterator[None]:
    """The stack with other values for a while; whatever happens, the usual ones are set again."""
    try:
        for key, value in changes.items():
            world.stack.set_config(f"dormouse:{key}", value)
        yield
    finally:
        for key in changes:
            world.stack.set_config(f"dormouse:{key}", USUAL[f"dormouse:{key}"])


@pytest.fixture(scope="module")
def world(
    engine_bin: Path,
    cloud: CloudProcess,
    control_plane: ControlPlane,
    kubernetes_client: ApiClient,
    node_bridge: NodeBridge,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("dev-stack")
    with dev_stack(folder, engine_bin, cloud, kubernetes_client) as made:
        yield made


def test_preview_creates_nothing_and_shows_fit_and_cost(world: World) -> None:
    run = world.stack.preview()
    assert run.changes == {"create": run.creates}
    assert run.creates > 70
    said = "\n".join(run.messages("info"))
    assert "Kimi K2.5 (595.1 GB) fits on one p5en.48xlarge (8 × H200)" in said
    assert "Asleep: $10.54 a day" in said
    assert billed(world.cloud) == world.before
    assert world.volumes() == []
    assert NAMESPACE not in [item.metadata.name for item in world.core.list_namespace().items]


def test_a_model_that_does_not_fit_never_reaches_the_cloud(world: World) -> None:
    with configured(world, instanceType="p5.48xlarge"), pytest.raises(PulumiCommandError) as refused:
        world.stack.preview()
    text = refused.value.run.text
    assert "does not fit on p5.48xlarge (8 × H100)" in text
    assert "each GPU lacks 19.4 GiB" in text
    assert "the same settings on p5e.48xlarge, p5en.48xlarge" in text
    assert "Traceback" not in text
    assert world.cloud.client("eks").list_clusters()["clusters"] == []


def test_every_fault_of_the_configuration_at_once(world: World) -> None:
    wrong = configured(world, kvCacheDtype="int4", timeZone="Europe/Atlantis")
    with wrong, pytest.raises(PulumiCommandError) as refused:
        world.stack.preview()
    text = refused.value.run.text
    assert "dormouse:kvCacheDtype: got int4; accepted: auto, fp8" in text
    assert "dormouse:timeZone: got Europe/Atlantis" in text
    assert "Traceback" not in text


def test_a_resource_that_fails_in_the_middle_is_made_good_by_the_next_up(world: World) -> None:
    logs = world.cloud.client("logs")
    # Somebody else's log group stands in the way: the cluster waits for it and must not be made.
    logs.create_log_group(logGroupName=f"/aws/eks/{CLUSTER}/cluster")
    with pytest.raises(PulumiCommandError) as failed:
        world.stack.up()
    assert "ResourceAlreadyExistsException" in failed.value.run.text
    made = [resource["type"] for resource in world.stack.resources()]
    assert "aws:ec2/vpc:Vpc" in made
    assert "aws:eks/cluster:Cluster" not in made
    logs.delete_log_group(logGroupName=f"/aws/eks/{CLUSTER}/cluster")

    run = world.stack.up()
    assert run.replaces == 0
    assert world.cloud.client("eks").list_clusters()["clusters"] == [CLUSTER]


def test_a_second_preview_finds_nothing_to_do_and_a_refresh_no_drift(world: World) -> None:
    assert_nothing_to_do(world.stack.preview())
    refreshed = world.stack.refresh()
    assert refreshed.drifted == []
    assert refreshed.changed == 0


def test_what_was_made_is_asleep_and_says_so(world: World) -> None:
    for slot, capacity in ((FIRST, "SPOT"), (SECOND, "ON_DEMAND"), (ELSEWHERE, "ON_DEMAND")):
        group = world.group(slot)
        assert group["capacityType"] == capacity
        assert group["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}
        assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
        assert group["updateConfig"]["updateStrategy"] == "MINIMAL"
        assert group["nodeRepairConfig"] == {"enabled": True}
    assert world.gpu_instances() == []
    assert (world.replicas(HERE), world.replicas(THERE)) == (0, 0)
    status = json.loads(world.dormouse("status", "--stack", "dev", "--json").stdout)
    assert status["state"] == "asleep"


def test_the_api_key_is_nowhere_in_clear(world: World) -> None:
    key = "0123456789abcdef" * 2
    assert key not in json.dumps(world.stack.state())
    assert key not in json.dumps(world.stack.outputs())
    secret = world.core.read_namespaced_secret("kimi-k2-5-api-key", NAMESPACE)
    assert set(secret.data) == {"api-key"}


def test_wake_and_hibernate_whole(world: World, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs.json"
    outputs.write_text(json.dumps(world.stack.outputs()), encoding="utf-8")

    woken = json.loads(world.dormouse("wake", "--outputs", str(outputs), "--json").stdout)
    assert (woken["state"], woken["slot"]) == ("awake", FIRST)
    (instance,) = world.gpu_instances()
    assert instance["Placement"]["AvailabilityZone"] == "us-east-2a"
    (pod,) = world.pods()
    assert pod.status.phase == "Running"
    node = world.core.read_node(pod.spec.node_name)
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "us-east-2a"
    assert node.spec.provider_id.endswith(instance["InstanceId"])

    again = json.loads(world.dormouse("wake", "--outputs", str(outputs), "--json").stdout)
    assert again["changed"] is False
    assert len(world.gpu_instances()) == 1

    slept = json.loads(world.dormouse("hibernate", "--outputs", str(outputs), "--json").stdout)
    assert slept["state"] == "asleep"
    assert world.gpu_instances() == []
    assert world.pods() == []
    assert world.replicas(HERE) == 0
    wait_until(lambda: "nvidia.com/gpu" not in capacities(world), "the GPU node has gone")
    assert_nothing_to_do(world.stack.preview())


def test_a_refused_candidate_is_lowered_again_and_the_next_one_serves(world: World) -> None:
    from infra.sandbox.cloud.capacity import CapacityRule

    rule = world.cloud.admin.add_capacity_rule(
        CapacityRule(instance_type="p5en.48xlarge", purchase="spot", code="MaxSpotInstanceCountExceeded")
    )
    try:
        woken = json.loads(world.dormouse("wake", "--stack", "dev", "--json").stdout)
    finally:
        world.cloud.admin.remove_capacity_rule(rule.rule_id)
    assert woken["slot"] == SECOND
    assert [refusal["slot"] for refusal in woken["refusals"]] == [FIRST]
    assert world.group(FIRST)["scalingConfig"]["desiredSize"] == 0
    assert len(world.gpu_instances()) == 1
    world.dormouse("hibernate", "--stack", "dev")
    assert world.gpu_instances() == []


def test_a_node_in_another_zone_does_not_get_the_pod(world: World) -> None:
    world.set_desired(ELSEWHERE, 1)
    wait_until(lambda: "nvidia.com/gpu" in capacities(world), "the GPU node of the other zone is there")
    world.scale(HERE, 1)

    def reason() -> str:
        conditions = [c for pod in world.pods() for c in (pod.status.conditions or []) if c.type == "PodScheduled"]
        return " ".join(c.message or "" for c in conditions)

    # Kubernetes says "volume node affinity conflict" up to 1.33 and names the PersistentVolume since.
    wait_until(lambda: "node affinity" in reason(), "the scheduler has said why")
    (pod,) = world.pods()
    assert pod.spec.node_name is None
    world.scale(HERE, 0)
    world.set_desired(ELSEWHERE, 0)
    wait_until(lambda: not world.pods(), "the pod has gone")
    wait_until(lambda: "nvidia.com/gpu" not in capacities(world), "the GPU node has gone")


def test_up_does_not_undo_what_the_brain_scaled(world: World) -> None:
    world.set_desired(FIRST, 1)
    wait_until(lambda: "nvidia.com/gpu" in capacities(world), "the GPU node is there")
    world.scale(HERE, 1)
    wait_until(lambda: [p.status.phase for p in world.pods()] == ["Running"], "the pod runs")
    uid = world.pods()[0].metadata.uid

    assert_nothing_to_do(world.stack.preview())
    # A change that touches every node group, and one that touches every object's labels.
    with configured(world, owner="other-team@example.com", maxSequences="64"):
        run = world.stack.up()
        assert run.updates > 0
        assert run.replaces == 0
        assert world.group(FIRST)["scalingConfig"]["desiredSize"] == 1
        assert world.replicas(HERE) == 1
        assert world.pods()[0].metadata.uid == uid

        # A change of the Deployment itself rolls the pod and keeps the replica.
        world.stack.set_config("dormouse:maxSequences", "32")
        world.stack.up()
        assert world.replicas(HERE) == 1
        wait_until(
            lambda: [p.status.phase for p in world.pods()] == ["Running"] and world.pods()[0].metadata.uid != uid,
            "the new pod runs",
            timeout_s=120,
        )
        world.stack.refresh()
        assert_nothing_to_do(world.stack.preview())

    world.scale(HERE, 0)
    world.set_desired(FIRST, 0)
    world.stack.up()
    wait_until(lambda: not world.gpu_instances(), "no GPU machine runs")


def test_throughput_changes_in_place(world: World) -> None:
    before = {volume["VolumeId"] for volume in world.volumes()}
    with configured(world, weightsThroughputMibps="1500"):
        run = world.stack.up()
        assert run.replaces == 0
        assert {volume["VolumeId"] for volume in world.volumes()} == before
        assert {(volume["Throughput"], volume["Iops"]) for volume in world.volumes()} == {(1500, 6000)}
        # A faster volume shortens the start that the probe allows.
        probe = world.apps.read_namespaced_deployment(HERE, NAMESPACE).spec.template.spec.containers[0].startup_probe
        assert probe.failure_threshold * probe.period_seconds == 1680
    world.stack.up()


def test_another_machine_replaces_the_node_groups_and_never_the_volume(world: World) -> None:
    before = {volume["VolumeId"] for volume in world.volumes()}
    with configured(world, instanceType="p5e.48xlarge"):
        preview = world.stack.preview()
        assert {urn.split("::")[2].split("$")[-1] for urn in preview.urns["replace"]} == {"aws:eks/nodeGroup:NodeGroup"}
        run = world.stack.up()
        assert run.replaces == 3
        assert {volume["VolumeId"] for volume in world.volumes()} == before
        assert world.group(FIRST)["instanceTypes"] == ["p5e.48xlarge"]
        assert [volume["State"] for volume in world.volumes()] == ["available", "available"]
    world.stack.up()


def test_replacing_a_protected_volume_is_refused(world: World) -> None:
    before = {volume["VolumeId"] for volume in world.volumes()}
    other = configured(world, weightsSource="snap-0123456789abcdef0")
    with other, pytest.raises(PulumiCommandError) as refused:
        world.stack.up()
    assert "protect" in refused.value.run.text
    assert {volume["VolumeId"] for volume in world.volumes()} == before
    world.stack.up()


def test_drift_is_seen_and_mended(world: World) -> None:
    (volume, _) = sorted(world.volumes(), key=lambda one: one["AvailabilityZone"])
    ec2 = world.cloud.client("ec2")
    ec2.delete_tags(Resources=[volume["VolumeId"]], Tags=[{"Key": "ebs.csi.aws.com/cluster"}])
    assert len(world.stack.refresh().drifted) == 1
    assert world.stack.up().updates == 1
    tags = {tag["Key"]: tag["Value"] for tag in _volume(world, volume["VolumeId"])["Tags"]}
    assert tags["ebs.csi.aws.com/cluster"] == "true"


def test_destroy_keeps_and_names_the_weight_volumes_and_nothing_else(world: World) -> None:
    kept = {volume["VolumeId"] for volume in world.volumes()}
    run = world.stack.destroy("--exclude-protected")
    assert "protected resources" in run.text
    left = [resource for resource in world.stack.resources() if resource["type"] == "aws:ebs/volume:Volume"]
    assert {resource["id"] for resource in left} == kept
    assert {volume["VolumeId"] for volume in world.volumes()} == kept
    assert billed(world.cloud) == world.before
    assert NAMESPACE not in [
        item.metadata.name for item in world.core.list_namespace().items if item.status.phase == "Active"
    ]


def test_a_plain_destroy_fails_at_the_volumes_and_keeps_them(world: World) -> None:
    kept = {volume["VolumeId"] for volume in world.volumes()}
    with pytest.raises(PulumiCommandError) as refused:
        world.stack.destroy()
    assert "protected" in refused.value.run.text
    assert {volume["VolumeId"] for volume in world.volumes()} == kept


def test_up_after_destroy_adopts_the_volumes_that_were_kept(world: World) -> None:
    kept = {volume["VolumeId"] for volume in world.volumes()}
    world.stack.up()
    assert {volume["VolumeId"] for volume in world.volumes()} == kept
    handles = {item.spec.csi.volume_handle for item in world.core.list_persistent_volume().items}
    assert handles == kept
    # Unprotected by hand and destroyed, the volumes leave the state and stay in AWS.
    world.stack.remove_everything()
    assert world.stack.resources() == []
    assert {volume["VolumeId"] for volume in world.volumes()} == kept
    assert billed(world.cloud) == world.before
    for volume_id in kept:
        world.cloud.client("ec2").delete_volume(VolumeId=volume_id)


def _volume(world: World, volume_id: str) -> dict[str, Any]:
    return next(volume for volume in world.volumes() if volume["VolumeId"] == volume_id)

"""Filling, checking, copying and speeding up weight volumes over real sockets; no weights are downloaded here."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from infra.cli.main import main
from infra.jobs.progress import Report, Step
from infra.jobs.wake import wake
from infra.jobs.weights.clone import clone
from infra.jobs.weights.hydrate import WeightRequest, hydrate, verify
from infra.jobs.weights.places import VERIFIED_TAG
from infra.jobs.weights.speed import change_speed
from infra.jobs.weights.status import WeightState, weights_status
from infra.jobs.weights.throughput import Outcome, lower_after, raise_for_wake
from infra.jobs.weights.volumes import read_volume
from serving.errors import CapacityError, ConfigurationError, JobError
from serving.manifests.hydrate import (
    NODE_GROUP_ANNOTATION,
    VOLUME_ANNOTATION,
    HydrateJob,
    hydrate_cron_job,
    hydrator_config_map,
    hydrator_service_account,
)
from serving.weights.marker import CHECK_CONTAINER, ExpectedWeights, check_command, refusal_text
from tests.jobs.world import CLUSTER, NAMESPACE, REGION, World

SOURCE = "hf://moonshotai/Kimi-K2.5"
HERE = f"namespaces/{NAMESPACE}"
JOBS = f"/apis/batch/v1/{HERE}/jobs"


@pytest.fixture(scope="module")
def prepared(one_world: World) -> Iterator[World]:
    """The stack with what `pulumi up` adds for weights in zone a."""
    role = one_world.eks.describe_cluster(name=CLUSTER)["cluster"]["roleArn"]
    one_world.eks.create_nodegroup(
        clusterName=CLUSTER,
        nodegroupName="hydrate-a",
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        subnets=[one_world.subnets["a"]],
        nodeRole=role,
        amiType="AL2023_ARM_64_STANDARD",
        instanceTypes=["c7gn.xlarge"],
        labels={"dormouse.dev/pool": "kimi-weights"},
        taints=[{"key": "dormouse.dev/weights", "value": "true", "effect": "NO_SCHEDULE"}],
    )
    one_world.eks.get_waiter("nodegroup_active").wait(
        clusterName=CLUSTER, nodegroupName="hydrate-a", WaiterConfig={"Delay": 0}
    )
    job = HydrateJob(
        name=f"weights-{REGION}a",
        claim="weights-a",
        zone=f"{REGION}a",
        model="kimi-k2.5",
        source=SOURCE,
        revision="main",
        weights_bytes=60 * 2**30,
        volume_mib_per_s=1000,
        pool="kimi-weights",
    )
    annotations = {VOLUME_ANNOTATION: one_world.volumes["a"], NODE_GROUP_ANNOTATION: "hydrate-a"}
    api = one_world.clients.kubernetes
    made = [
        (f"/api/v1/{HERE}/configmaps", hydrator_config_map(NAMESPACE, "")),
        (f"/api/v1/{HERE}/serviceaccounts", hydrator_service_account(NAMESPACE)),
        (f"/apis/batch/v1/{HERE}/cronjobs", hydrate_cron_job(job, NAMESPACE, annotations)),
    ]
    for collection, body in made:
        api.create(collection, body)
    yield one_world
    for collection, body in made:
        api.delete(f"{collection}/{body['metadata']['name']}")
    one_world.eks.delete_nodegroup(clusterName=CLUSTER, nodegroupName="hydrate-a")


@pytest.fixture
def stack(prepared: World, world: World) -> World:
    """Asleep, with an empty volume and no Job."""
    for job in world.clients.kubernetes.list(JOBS):
        world.clients.kubernetes.delete(f"{JOBS}/{job['metadata']['name']}", propagation="Background")
    world.ec2.delete_tags(Resources=[world.volumes["a"]], Tags=[{"Key": VERIFIED_TAG}])
    return world


def small_nodes(world: World) -> int:
    group = world.eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName="hydrate-a")["nodegroup"]
    return int(group["scalingConfig"]["desiredSize"])


def fill(world: World, progress: Any = None, **request: Any) -> Report:
    told = progress or (lambda _step: None)
    return hydrate(world.outputs, world.clients, world.clock, told, WeightRequest(**request))


def state(world: World) -> WeightState:
    return weights_status(world.outputs, world.clients, world.clock).statuses[0].state


def test_an_empty_volume_is_filled_proven_tagged_and_its_machine_goes(stack: World) -> None:
    assert state(stack) is WeightState.UNPROVEN
    told: list[Step] = []
    running: list[Any] = []

    def watch(step: Step) -> None:
        told.append(step)
        if step.stage == "hydrate" and "%" in step.text and not running:
            running.append(weights_status(stack.outputs, stack.clients, stack.clock).statuses[0])

    report = fill(stack, watch)
    assert report.changed
    assert report.sentence == (
        f"us-east-2a: simulated: weights of {SOURCE} at main count as verified; nothing was downloaded"
    )
    assert [step.stage for step in told][-2:] == ["stop", "note"]
    assert report.notes[0].startswith("one c7gn.xlarge ran for ")
    assert report.notes[0].endswith("; its price in us-east-2 is unknown to this release")
    assert running[0].state is WeightState.HYDRATING
    assert 0 <= running[0].percent <= 100
    volume = read_volume(stack.clients, stack.volumes["a"])
    assert volume.verified.startswith("verified:main:")
    assert small_nodes(stack) == 0
    assert state(stack) is WeightState.VERIFIED

    again = fill(stack)
    assert not again.changed
    assert "already" in again.sentence

    # A copy in S3 that was wanted later: the Job runs again, for a whole volume only copies.
    wanting = replace(stack.outputs, weights_copy_uri="s3://no-such-bucket-yet/kimi-k2.5")
    report = weights_status(wanting, stack.clients, stack.clock)
    assert not report.ok
    assert "the copy of the weights at s3://no-such-bucket-yet/kimi-k2.5 is not there" in report.copy_problem
    assert hydrate(wanting, stack.clients, stack.clock).changed


@pytest.mark.sandbox
@pytest.mark.parametrize("stage", ["node", "volume", "hydrate", "done", "stop"])
def test_killed_anywhere_and_run_again_it_ends_the_same_with_one_job(stack: World, stage: str) -> None:
    class Killed(BaseException):
        pass

    def kill(step: Step) -> None:
        if step.stage == stage:
            raise Killed

    with pytest.raises(Killed):
        fill(stack, kill)
    fill(stack)
    jobs = [job["metadata"]["name"] for job in stack.clients.kubernetes.list(JOBS)]
    assert jobs == [f"weights-{REGION}a-hydrate"]
    assert state(stack) is WeightState.VERIFIED
    assert small_nodes(stack) == 0


def test_a_volume_that_a_gpu_node_holds_is_left_alone(stack: World) -> None:
    stack.set_desired("ondemand-a", 1)
    stack.scale("vllm-a", 1)
    stack.wait("attached", lambda: read_volume(stack.clients, stack.volumes["a"]).attached_to)
    with pytest.raises(JobError, match=r"the GPU node of ondemand-a.*dormouse hibernate"):
        fill(stack)
    assert small_nodes(stack) == 0
    assert stack.clients.kubernetes.list(JOBS) == []


def test_a_full_check_runs_beside_the_tag_and_a_sample_names_its_size(stack: World) -> None:
    stack.ec2.create_tags(Resources=[stack.volumes["a"]], Tags=[{"Key": VERIFIED_TAG, "Value": "verified:x:y"}])
    report = verify(stack.outputs, stack.clients, stack.clock, request=WeightRequest(again=True, sample=3))
    assert report.goal == "weights verify"
    job = stack.clients.kubernetes.get(f"{JOBS}/weights-{REGION}a-verify")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["verify"]
    assert {"name": "DORMOUSE_SAMPLE", "value": "3"} in container["env"]
    # A sample proves too little to change what the tag says.
    assert read_volume(stack.clients, stack.volumes["a"]).verified == "verified:x:y"


def test_a_check_that_finds_nothing_sound_ends_at_once_and_takes_the_tag(stack: World) -> None:
    stack.kubernetes.contents.empty(stack.volumes["a"])
    stack.ec2.create_tags(Resources=[stack.volumes["a"]], Tags=[{"Key": VERIFIED_TAG, "Value": "verified:x:y"}])
    with pytest.raises(JobError, match=r"has no manifest to compare with.*no longer counts as proven"):
        verify(stack.outputs, stack.clients, stack.clock, request=WeightRequest(again=True, sample=1))
    status = stack.clients.kubernetes.get(f"{JOBS}/weights-{REGION}a-verify")["status"]
    assert (status["failed"], status["conditions"][0]["reason"]) == (1, "PodFailurePolicy")
    assert state(stack) is WeightState.FAILED
    assert read_volume(stack.clients, stack.volumes["a"]).verified == ""
    assert small_nodes(stack) == 0
    fill(stack)


def test_the_gpu_node_does_the_work_where_that_was_said_and_stays(stack: World) -> None:
    zone = f"{REGION}b"
    job = HydrateJob(
        f"weights-{zone}", "weights-b", zone, "kimi-k2.5", SOURCE, "main", 2**30, 1000, "kimi", on_gpu_node=True
    )
    body = hydrate_cron_job(job, NAMESPACE, {VOLUME_ANNOTATION: stack.volumes["b"], NODE_GROUP_ANNOTATION: ""})
    # The world's GPU nodes carry no pool.
    del body["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nodeSelector"]
    cron_jobs = f"/apis/batch/v1/{HERE}/cronjobs"
    stack.clients.kubernetes.create(cron_jobs, body)
    try:
        with pytest.raises(JobError, match=r"no GPU node is up in us-east-2b: raise one of gpu-ondemand-b to 1"):
            fill(stack, zone=zone)
        stack.set_desired("ondemand-b", 1)
        report = fill(stack, zone=zone)
        assert "count as verified" in report.sentence
        assert report.notes == ()
        assert stack.desired()["ondemand-b"] == 1
        assert small_nodes(stack) == 0
    finally:
        stack.clients.kubernetes.delete(f"{cron_jobs}/{job.name}")


def test_a_wake_on_unproven_volumes_gives_every_node_back_and_says_what_to_run(stack: World) -> None:
    path = f"/apis/apps/v1/{HERE}/deployments/vllm-"
    before = {letter: stack.clients.kubernetes.get(path + letter)["spec"]["template"]["spec"] for letter in "ab"}
    launched = stack.launched_ever()
    seen: list[Any] = []

    def look(step: Step) -> None:
        if step.stage == "refused" and not seen:
            seen.extend(
                stack.clients.kubernetes.list(f"/api/v1/{HERE}/pods", label_selector="app.kubernetes.io/name=vllm")
            )
            name = seen[0]["metadata"]["name"]
            seen.append(stack.clients.kubernetes.get_text(f"/api/v1/{HERE}/pods/{name}/log", container=CHECK_CONTAINER))

    for letter in "ab":
        stack.kubernetes.contents.empty(stack.volumes[letter])
        check = {
            "name": CHECK_CONTAINER,
            "image": "vllm/vllm-openai:v0.32.0",
            "command": check_command(ExpectedWeights("/models/kimi-k2.5", SOURCE)),
            "volumeMounts": [{"name": "weights", "mountPath": "/models", "readOnly": True}],
        }
        starters = [check, *before[letter]["initContainers"]]
        stack.clients.kubernetes.patch(path + letter, {"spec": {"template": {"spec": {"initContainers": starters}}}})
    try:
        with pytest.raises(CapacityError) as refused:
            wake(stack.outputs, stack.clients, stack.clock, look)
    finally:
        for letter in "ab":
            template = {"spec": {"initContainers": before[letter]["initContainers"]}}
            stack.clients.kubernetes.patch(path + letter, {"spec": {"template": template}})
    words = str(refused.value)
    assert words.startswith("no candidate serves; every node group is back at 0 and nothing is paid for:")
    assert f"spot-a: {stack.volumes['a']} is refused, so the node is given back; weights-check: /models/kimi" in words
    assert f"ondemand-a: {stack.volumes['a']} is refused, as before; not asked for" in words
    assert f"ondemand-b: {stack.volumes['b']} is refused, so the node is given back" in words
    assert words.endswith("What can help: fill the volumes: `dormouse weights hydrate`, then wake again.")
    assert stack.launched_ever() - launched == 2, "a volume that was refused is not tried on another machine"
    assert set(stack.desired().values()) == {0}
    (check,) = [one for one in seen[0]["status"]["initContainerStatuses"] if one["name"] == CHECK_CONTAINER]
    assert (seen[0]["status"]["phase"], check["state"]["waiting"]["reason"]) == ("Pending", "CrashLoopBackOff")
    ended = check["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (1, refusal_text("/models/kimi-k2.5 is not on the volume"))
    assert ended["message"] in seen[-1]


def test_a_clone_carries_the_proof_and_is_made_once(stack: World) -> None:
    with pytest.raises(JobError, match="no weight volume of this stack is verified"):
        clone(stack.outputs, stack.clients, stack.clock, "use2-az2")
    stack.ec2.create_tags(Resources=[stack.volumes["a"]], Tags=[{"Key": VERIFIED_TAG, "Value": "verified:r:d"}])
    report = clone(stack.outputs, stack.clients, stack.clock, "use2-az2", rate_mib_per_s=300)
    made = weights_status(stack.outputs, stack.clients, stack.clock).clones
    assert [(one.zone, one.verified, one.size_gib) for one in made] == [("us-east-2b", "verified:r:d", 700)]
    assert report.changed
    again = clone(stack.outputs, stack.clients, stack.clock, "us-east-2b")
    assert not again.changed
    assert (
        len(
            stack.ec2.describe_snapshots(
                OwnerIds=["self"], Filters=[{"Name": "volume-id", "Values": [stack.volumes["a"]]}]
            )["Snapshots"]
        )
        == 1
    )
    stack.ec2.delete_volume(VolumeId=made[0].volume_id)
    with pytest.raises(ConfigurationError, match=r"--rate.*MiB/s from 100 to 300"):
        clone(stack.outputs, stack.clients, stack.clock, "us-east-2b", rate_mib_per_s=500)
    with pytest.raises(ConfigurationError, match=r"us-east-2a \(use2-az1\)"):
        clone(stack.outputs, stack.clients, stack.clock, "mars")


def test_throughput_keeps_a_change_for_lowering_and_stops_at_four_in_a_day(stack: World) -> None:
    volume_id = stack.ec2.create_volume(
        AvailabilityZone=f"{REGION}a", Size=100, VolumeType="gp3", Throughput=250, Iops=3000
    )["VolumeId"]
    moment = stack.clock.now()

    class At:
        """A clock that stands still until it is moved."""

        now_ = moment

        def now(self) -> Any:
            return self.now_

    at: Any = At()
    # Somebody has asked for more operations than the throughput needs.
    same = replace(stack.outputs, volume_mib_per_s=1000, volume_iops=6000, volume_asleep_mib_per_s=1000)
    low = replace(same, volume_asleep_mib_per_s=250)
    assert raise_for_wake(same, stack.clients, at, volume_id) is None
    words: list[tuple[bool, int]] = []
    for _ in range(2):
        for change in (raise_for_wake, lower_after):
            at.now_ += timedelta(hours=1)
            done = change(low, stack.clients, at, volume_id)
            assert done is not None
            volume = read_volume(stack.clients, volume_id)
            words.append((done.changed, done.left, volume.throughput_mib_per_s, volume.iops))
    up, down = (1000, 6000), (250, 3000)
    assert words == [(True, 3, *up), (True, 2, *down), (True, 1, *up), (True, 0, *down)]
    again = lower_after(low, stack.clients, at, volume_id)
    assert again is not None
    assert again.outcome is Outcome.ALREADY
    refused = raise_for_wake(low, stack.clients, at, volume_id)
    assert refused is not None
    assert not refused.changed
    assert "was changed 4 times in 24 hours" in refused.words
    # The first is a day old then: one change is free, and it is kept for lowering.
    at.now_ = moment + timedelta(hours=25, minutes=1)
    kept = raise_for_wake(low, stack.clients, at, volume_id)
    assert kept is not None
    assert not kept.changed
    assert "1 kept for lowering it again" in kept.words
    at.now_ = moment + timedelta(hours=26, minutes=1)
    free = raise_for_wake(low, stack.clients, at, volume_id)
    assert free is not None
    assert (free.changed, free.left) == (True, 1)
    stack.ec2.delete_volume(VolumeId=volume_id)


def test_speed_goes_the_way_that_was_said(stack: World) -> None:
    with pytest.raises(ConfigurationError, match="more than 1000"):
        change_speed(stack.outputs, stack.clients, stack.clock, "up", 500)
    with pytest.raises(ConfigurationError, match="125 to 2,000 MiB/s"):
        change_speed(stack.outputs, stack.clients, stack.clock, "up", 5000)


def test_commands_say_what_to_do(
    stack: World, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(stack.outputs.to_json())
    monkeypatch.setenv("AWS_ENDPOINT_URL", stack.cloud.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    assert main(["weights", "status", "--outputs", str(file)]) == 1
    assert "empty, or filled by nobody knows whom; run `dormouse weights hydrate`" in capsys.readouterr().out
    assert main(["weights", "status", "--outputs", str(file), "--zone", "use2-az2"]) == 2
    assert "a zone with a weight volume: us-east-2a" in capsys.readouterr().err
    assert main(["weights", "verify", "--outputs", str(file)]) == 2

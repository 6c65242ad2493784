"""Hibernating over real sockets: nothing that streams is cut, nothing stays billed, the weights stay."""

import socket
import threading
import time
from typing import Any

import pytest

from infra.jobs import weight_volumes
from infra.jobs.hibernate import HibernateRequest, hibernate
from infra.jobs.lock import LostLockError
from infra.jobs.progress import Report, Step
from infra.jobs.state import StateKind, state_of
from infra.jobs.wake import wake
from serving.errors import JobError
from tests.jobs.world import LOAD_S, NAMESPACE, World


def run(world: World, **request: Any) -> Report:
    return hibernate(world.outputs, world.clients, world.clock, request=HibernateRequest(**request))


def asleep(world: World) -> bool:
    seen = world.observe()
    return (
        state_of(seen).kind is StateKind.ASLEEP
        and not world.live_instances()
        and not seen.pods
        and all(volume.state == "available" for volume in seen.volumes)
    )


@pytest.fixture
def awake(world: World) -> World:
    wake(world.outputs, world.clients, world.clock)
    return world


def test_an_idle_stack_goes_to_sleep(awake: World) -> None:
    told: list[Step] = []
    report = hibernate(awake.outputs, awake.clients, awake.clock, told.append)
    assert asleep(awake)
    assert report.changed
    assert report.sentence.endswith("; $4.20 a day while asleep")
    for volume_id in awake.volumes.values():
        assert volume_id in report.sentence
    assert {awake.annotation("vllm-a"), awake.annotation("vllm-b")} == {"asleep"}
    assert list(dict.fromkeys(step.stage for step in told)) == ["drain", "stop", "volume", "done"]
    again = run(awake)
    assert (again.changed, again.sentence.startswith("already asleep: no GPU node")) == (False, True)


def test_a_streaming_answer_is_not_cut(awake: World) -> None:
    ends_s = awake.clock.monotonic_s() + 500.0
    awake.kubernetes.simulate_requests(NAMESPACE, 3, 500.0)
    stopped_s: list[float] = []

    def watch(step: Step) -> None:
        if step.stage == "stop" and not stopped_s:
            stopped_s.append(awake.clock.monotonic_s())

    report = hibernate(awake.outputs, awake.clients, awake.clock, watch)
    assert stopped_s[0] >= ends_s
    assert any(step.text == "3 requests still running" for step in report.steps)
    assert asleep(awake)


def test_no_new_request_reaches_a_draining_pod(awake: World) -> None:
    awake.kubernetes.simulate_requests(NAMESPACE, 1, 200.0)
    states: list[Any] = []

    def watch(step: Step) -> None:
        if step.text == "1 requests still running" and not states:
            states.append(state_of(awake.observe()))
            states.append(awake.wait("out", lambda: awake.kubernetes.simulate_requests(NAMESPACE, 1, 1.0) == 0, 100.0))

    hibernate(awake.outputs, awake.clients, awake.clock, watch)
    assert states[0].kind is StateKind.DRAINING
    assert "takes no new requests" in states[0].why
    assert states[1] is True


def test_requests_that_do_not_end_keep_the_stack_awake(awake: World) -> None:
    awake.kubernetes.simulate_requests(NAMESPACE, 2, 3000.0)
    with pytest.raises(JobError) as raised:
        run(awake, drain_timeout_s=60.0)
    assert "2 requests are still running after" in str(raised.value)
    assert "--force" in str(raised.value)
    assert awake.ready_pod()["metadata"]["labels"]["dormouse.dev/accepting"] == "true"
    assert awake.annotation("vllm-a") == "awake"
    assert awake.desired()["spot-a"] == 1
    assert state_of(awake.observe()).kind is StateKind.AWAKE

    report = run(awake, force=True)
    assert asleep(awake)
    assert any("ends 2 requests, within 2 min" in step.text for step in report.steps)


def plan_load(world: World, seconds: int) -> None:
    load = {"spec": {"template": {"metadata": {"annotations": {"dormouse.dev/planned-load-s": str(seconds)}}}}}
    world.clients.kubernetes.patch(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/vllm-a", load)


def test_a_loading_model_is_not_idle(
    world: World, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    seen: list[str] = []

    def interrupt(step: Step) -> None:
        if step.stage == "loading" or step.text.startswith("pod "):
            raise KeyboardInterrupt

    # Long enough to be loading still when the second job comes, on however slow a machine.
    plan_load(world, 20_000)
    request.addfinalizer(lambda: plan_load(world, LOAD_S))
    with pytest.raises(KeyboardInterrupt):
        wake(world.outputs, world.clients, world.clock, interrupt)
    with pytest.raises(JobError, match="somebody is waking this stack, and loading is not idling") as raised:
        run(world)
    seen.append(str(raised.value))
    assert "--force" in seen[0]
    assert world.desired()["spot-a"] == 1
    assert world.replicas()["vllm-a"] == 1

    deleted: list[dict[str, Any]] = []
    delete = world.clients.kubernetes.delete

    def record(path: str, **options: Any) -> dict[str, Any]:
        deleted.append(options)
        return delete(path, **options)

    monkeypatch.setattr(world.clients.kubernetes, "delete", record)
    assert run(world, force=True).state == "asleep"
    # A loading vLLM ignores SIGTERM: with its own grace period the machine would be paid for ten minutes more.
    assert {"grace_period_s": 30} in deleted
    assert asleep(world)


def test_a_node_without_a_pod_is_stopped(world: World) -> None:
    world.set_desired("ondemand-b", 1)
    world.wait("instance", world.live_instances)
    run(world)
    assert asleep(world)


def test_a_running_wake_is_respected_and_force_ends_it(world: World) -> None:
    world.refuse()
    errors: list[Exception] = []
    begun = threading.Event()

    def keep_waking() -> None:
        try:
            wake(world.outputs, world.connect(), world.clock, lambda _step: begun.set())
        except JobError as error:
            errors.append(error)

    thread = threading.Thread(target=keep_waking)
    thread.start()
    begun.wait(10)
    with pytest.raises(JobError, match="wake by .* is running since"):
        run(world)
    report = run(world, force=True)
    thread.join(timeout=20)
    assert isinstance(errors[0], LostLockError)
    assert "running it again is safe" in str(errors[0])
    assert any(note.startswith("took the lock over from") for note in report.notes)
    world.capacity.rules.clear()
    time.sleep(0.3)
    assert asleep(world)


def test_unreadable_metrics_leave_the_drain_to_vllm(awake: World) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    awake.kubernetes.put_behind_pods(address)
    try:
        state = state_of(awake.observe())
        assert state.kind is StateKind.AWAKE
        assert "running requests unknown" in state.why
        report = run(awake)
    finally:
        awake.kubernetes.put_behind_pods(None)
    assert any("cannot be read" in note and "by itself within 2 min of SIGTERM" in note for note in report.notes)
    assert asleep(awake)


def test_a_dry_run_changes_nothing_and_names_the_steps(awake: World) -> None:
    awake.kubernetes.simulate_requests(NAMESPACE, 4, 100.0)
    pod = awake.ready_pod()["metadata"]["name"]
    report = run(awake, dry_run=True)
    texts = [step.text for step in report.steps]
    assert texts[0] == f"take pod {pod} out of the Service"
    assert texts[1] == "wait up to 10 min for its running requests to end (4 now)"
    assert texts[2] == "set Deployment vllm-a to 0 and wait until its pod is gone"
    assert texts[3] == "set node group gpu-spot-a to 0, which saves an unknown price"
    assert awake.live_instances()[0] in texts[4]
    assert awake.replicas()["vllm-a"] == 1
    assert awake.annotation("vllm-a") == "awake"
    assert report.dry_run


def test_a_volume_that_stays_attached_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_volumes, "_VOLUME_S", 20.0)
    image = world.ec2.describe_images()["Images"][0]["ImageId"]
    other = world.ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, SubnetId=world.subnets["b"])["Instances"][0]
    world.ec2.attach_volume(VolumeId=world.volumes["b"], InstanceId=other["InstanceId"], Device="/dev/sdf")
    try:
        world.set_desired("spot-a", 1)
        assert state_of(world.observe()).kind is StateKind.INCONSISTENT
        with pytest.raises(JobError) as raised:
            run(world)
        assert f"{world.volumes['b']} is still in-use at {other['InstanceId']}" in str(raised.value)
        assert world.desired()["spot-a"] == 0
    finally:
        world.ec2.detach_volume(VolumeId=world.volumes["b"], InstanceId=other["InstanceId"])
        world.ec2.terminate_instances(InstanceIds=[other["InstanceId"]])


def test_without_the_cluster_only_force_stops_the_nodes(awake: World) -> None:
    cloud = awake.cloud.simulation.kubernetes
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        cloud.endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
    try:
        clients = awake.connect()
        clients.kubernetes._attempts = 1
        with pytest.raises(JobError, match="nobody can tell whether requests are running, so nothing was changed"):
            hibernate(awake.outputs, clients, awake.clock)
        assert len(awake.live_instances()) == 1
        report = hibernate(awake.outputs, clients, awake.clock, request=HibernateRequest(force=True))
    finally:
        cloud.endpoint = awake.kubernetes.url
    assert report.notes[0].startswith("the cluster is out of reach (Unreachable)")
    assert awake.live_instances() == []
    assert state_of(awake.observe()).kind in (StateKind.INCONSISTENT, StateKind.STOPPING)

"""Every way for the weights: how long, what it costs, what holds it back, and which one is taken."""

import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape
from serving.engine.extra_arguments import extra_argument_faults
from serving.engine_args import EngineOptions, engine_arguments, engine_environment
from serving.errors import ConfigurationError
from serving.image_pull import pull_estimates
from serving.loading import (
    LoadingEstimate,
    LoadingPath,
    S3Source,
    StoragePrices,
    WeightStorage,
    compare_loading,
    estimate_path,
)
from serving.loading_choice import choose_loading
from serving.manifests.deployment import ServiceNames, deployment
from serving.manifests.nvme_copy import COPY_SCRIPT
from serving.manifests.service import Access, network_policy
from serving.memory import EngineLimits
from serving.profiles import load_model
from serving.runtime import pinned_runtime
from serving.service_plan import ServicePlan, plan_service

KIMI = load_model("kimi-k2.5")
SHAPE = instance_shape("p5en.48xlarge")
BYTES = KIMI.published_weights_bytes
PRICES = StoragePrices(0.08, 0.04, 0.005, 0.05, 0.023)
NAMES = ServiceNames("dev", "dev", "kimi", "kimi", "kimi-api-key", "kimi-gateway", "dev")
COPY = S3Source("s3://weights-dev/kimi-k2.5", "us-east-2")
FACTS = Path(__file__).parents[3] / "shared" / "facts"


def storage(mib_per_s: int = 1000, volumes: int = 2, *, s3_copy: bool = False) -> WeightStorage:
    return WeightStorage(650, mib_per_s, mib_per_s - 125, max(0, 4 * mib_per_s - 3000), volumes, s3_copy)


def compared(usd_per_hour: float | None = 63.296, **changes: Any) -> dict[LoadingPath, LoadingEstimate]:
    found = compare_loading(BYTES, SHAPE, storage(**changes), PRICES, usd_per_hour)
    assert tuple(one.path for one in found) == tuple(LoadingPath)
    return {one.path: one for one in found}


def plan(path: LoadingPath, mib_per_s: int = 1000) -> ServicePlan:
    estimate = estimate_path(path, BYTES, SHAPE, mib_per_s)
    return plan_service(KIMI, SHAPE, EngineLimits(262_144, 64), mib_per_s, 600, 0, estimate)


def pod(path: LoadingPath, claim: str | None = "weights-a", s3: S3Source | None = COPY) -> dict[str, Any]:
    made = deployment(NAMES, KIMI, plan(path), "kimi-a", "us-east-2a", claim, (), s3)
    return made["spec"]["template"]["spec"]


def test_the_volume_s_rate_is_what_a_read_ahead_load_takes_and_what_it_costs() -> None:
    one = compared()[LoadingPath.VOLUME_PREFETCH]
    assert one.likely_s == pytest.approx(BYTES / (1000 * 2**20))
    assert one.limited_by == "volume"
    assert one.usd_per_wake == pytest.approx(63.296 * one.likely_s / 3600)
    assert one.usd_idle_per_month == pytest.approx(2 * (650 * 0.08 + 875 * 0.04 + 1000 * 0.005))
    assert one.usd_per_month(10) == pytest.approx(one.usd_idle_per_month + 10 * one.usd_per_wake)
    assert not one.measured


def test_the_bottleneck_moves_from_volume_to_reader_to_machine() -> None:
    small = instance_shape("p4d.24xlarge")
    fast = WeightStorage(650, 2000, 0, 0, 1, s3_copy=False)
    found = {one.path: one for one in compare_loading(BYTES, small, fast, PRICES, None)}
    assert small.ebs_mb_per_s == 2375
    assert found[LoadingPath.VOLUME_PREFETCH].limited_by == "volume"
    striped = WeightStorage(650, 50_000, 0, 0, 1, s3_copy=False)
    found = {one.path: one for one in compare_loading(BYTES, small, striped, PRICES, None)}
    assert found[LoadingPath.VOLUME_STREAMER].limited_by == "instance's EBS bandwidth"
    assert compared(mib_per_s=50_000)[LoadingPath.VOLUME_PREFETCH].limited_by == "mapped reader"


def test_s3_costs_a_copy_and_no_volume_and_a_snapshot_s_unknown_rate_stays_unknown() -> None:
    found = compared(s3_copy=True)
    assert found[LoadingPath.S3_STREAMER].usd_idle_per_month == pytest.approx(BYTES / 1e9 * 0.023)
    assert found[LoadingPath.S3_STREAMER].limited_by == "network from S3"
    clone = found[LoadingPath.CLONE]
    assert (clone.likely_s, clone.slow_s, clone.usd_per_wake, clone.usd_per_month(5)) == (None, None, None, None)
    assert "does not publish" in clone.limited_by
    assert found[LoadingPath.CLONE_RATED].likely_s == pytest.approx(BYTES / (300 * 2**20))
    both = found[LoadingPath.NVME_COPY]
    assert both.likely_s > found[LoadingPath.VOLUME_PREFETCH].likely_s, "the copy and then the load"


def test_without_a_price_nothing_is_guessed() -> None:
    found = compare_loading(BYTES, SHAPE, storage(), StoragePrices(None, 0.04, 0.005, None, None), None)
    assert {one.usd_per_wake for one in found} == {None}
    assert {one.usd_idle_per_month for one in found} == {None}
    assert choose_loading(found, "auto", 22).path is LoadingPath.VOLUME_PREFETCH
    assert "no price of the machine is known" in choose_loading(found, "auto", 22).reason


@given(st.integers(125, 2000), st.integers(1, 6), st.booleans(), st.floats(1, 200), st.integers(1, 400))
def test_auto_is_never_dearer_at_its_slow_end_than_what_it_left(
    mib_per_s: int, volumes: int, s3_copy: bool, usd_per_hour: float, wakes: int
) -> None:
    found = compare_loading(BYTES, SHAPE, storage(mib_per_s, volumes, s3_copy=s3_copy), PRICES, usd_per_hour)
    chosen = choose_loading(found, "auto", wakes).estimate
    assert not chosen.needs
    for other in found:
        if not other.needs and other.slow_s is not None:
            assert chosen.usd_per_month(wakes, slow=True) <= other.usd_per_month(wakes, slow=True) + 0.02
    for one in found:
        if one.slow_s is not None:
            assert one.fast_s <= one.likely_s <= one.slow_s


def test_auto_reads_ahead_and_with_a_copy_in_s3_streams_it() -> None:
    assert choose_loading(tuple(compared().values()), "auto", 22).path is LoadingPath.VOLUME_PREFETCH
    choice = choose_loading(tuple(compared(s3_copy=True).values()), "auto", 22)
    assert choice.path is LoadingPath.S3_STREAMER
    assert choice.reason.startswith(
        "s3-streamer is the cheapest of the 6 paths that can be taken, even at its slow end"
    )
    assert choose_loading(tuple(compared(s3_copy=True).values()), "nvme-copy", 22).path is LoadingPath.NVME_COPY_S3
    assert choose_loading(tuple(compared().values()), "nvme-copy", 22).path is LoadingPath.NVME_COPY


def test_a_path_that_cannot_be_had_is_refused_with_those_that_can() -> None:
    with pytest.raises(ConfigurationError) as refused:
        choose_loading(tuple(compared().values()), "s3-streamer", 22)
    (fault,) = refused.value.faults
    assert fault.accepted == (
        "volume or volume-prefetch or volume-streamer or nvme-copy; s3-streamer needs the regional copy in S3"
        " (weightsS3Copy: true)"
    )
    with pytest.raises(ConfigurationError, match="at least one path that can be taken"):
        choose_loading(tuple(compared(volumes=0).values()), "auto", 22)


@pytest.mark.parametrize("path", [one for one in LoadingPath if one is not LoadingPath.CLONE])
def test_the_probe_waits_for_the_slow_end_and_the_estimate_is_the_likely_one(path: LoadingPath) -> None:
    estimate = estimate_path(path, BYTES, SHAPE, 1000)
    made = plan(path)
    assert made.loading is path
    assert made.planned_load_s == pytest.approx(estimate.likely_s + 180, abs=1)
    assert made.startup_window_s >= max(estimate.slow_s, 2 * estimate.likely_s) + 900


@pytest.mark.parametrize("path", list(LoadingPath))
def test_flags_exist_in_the_pinned_vllm_and_a_user_s_own_loader_wins(path: LoadingPath) -> None:
    arguments = engine_arguments(KIMI, plan(path), EngineOptions(s3=COPY))
    assert extra_argument_faults(arguments[1:], guarded=False) == ()
    known = FACTS / "vllm_0_32_flags.json"
    if not known.exists():
        pytest.skip(f"the flag list of vLLM 0.32 is not at {known}")
    names = json.loads(known.read_text(encoding="utf-8"))["flags"]
    assert {argument.split("=")[0] for argument in arguments[1:]} <= set(names)
    own = engine_arguments(KIMI, plan(path), EngineOptions(s3=COPY, extra=("--load-format=instanttensor",)))
    assert [argument for argument in own if "load" in argument.split("=")[0]] == ["--load-format=instanttensor"]


def test_the_streamer_reads_each_byte_once_from_s3() -> None:
    arguments = engine_arguments(KIMI, plan(LoadingPath.S3_STREAMER), EngineOptions(s3=COPY))
    assert arguments[0] == "s3://weights-dev/kimi-k2.5"
    assert "--load-format=runai_streamer" in arguments
    (settings,) = [argument for argument in arguments if argument.startswith("--model-loader-extra-config=")]
    # vLLM 0.32 refuses every other key.
    assert json.loads(settings.partition("=")[2]) == {"concurrency": 149, "distributed": True}
    variables = engine_environment(plan(LoadingPath.S3_STREAMER), COPY)
    assert (variables["AWS_REGION"], variables["VLLM_ASSETS_CACHE"]) == ("us-east-2", "/cache/assets")
    assert "AWS_REGION" not in engine_environment(plan(LoadingPath.VOLUME))


def mounts(spec: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {m["mountPath"]: (m["name"], m.get("subPath")) for m in spec["containers"][0]["volumeMounts"]}


def test_streaming_from_s3_needs_no_claim_and_keeps_caches_where_there_is_one() -> None:
    without = pod(LoadingPath.S3_STREAMER, claim=None)
    assert "/models" not in mounts(without)
    assert mounts(without)["/cache"] == ("cache", None)
    assert not any("persistentVolumeClaim" in volume for volume in without["volumes"])
    kept = pod(LoadingPath.S3_STREAMER)
    assert "/models" not in mounts(kept)
    assert mounts(kept)["/cache"] == ("weights", "cache")
    with pytest.raises(ConfigurationError, match="a claim; without one only s3-streamer"):
        pod(LoadingPath.VOLUME, claim=None)
    with pytest.raises(ConfigurationError, match="weightsS3Copy: true"):
        pod(LoadingPath.S3_STREAMER, s3=None)


def test_a_copy_to_the_node_s_disk_comes_first_and_is_what_vllm_reads() -> None:
    spec = pod(LoadingPath.NVME_COPY)
    assert mounts(spec)["/models"] == ("local-weights", None)
    assert mounts(spec)["/cache"] == ("weights", "cache")
    (copy,) = [container for container in spec["initContainers"] if container["name"] == "nvme-copy"]
    assert copy["image"] == pinned_runtime().vllm_image
    assert copy["command"][-2:] == ["/volume/kimi-k2.5", "/models/kimi-k2.5"]
    (local,) = [volume for volume in spec["volumes"] if volume["name"] == "local-weights"]
    assert int(local["emptyDir"]["sizeLimit"][:-2]) * 2**30 > BYTES
    from_s3 = pod(LoadingPath.NVME_COPY_S3, claim=None)
    (copy,) = [container for container in from_s3["initContainers"] if container["name"] == "nvme-copy"]
    assert {"name": "DORMOUSE_SOURCE", "value": COPY.uri} in copy["env"]


@pytest.mark.parametrize("path", [LoadingPath.S3_STREAMER, LoadingPath.NVME_COPY, LoadingPath.NVME_COPY_S3])
def test_kubernetes_knows_every_field(path: LoadingPath) -> None:
    claim = "weights-a" if path is LoadingPath.NVME_COPY else None
    made = deployment(NAMES, KIMI, plan(path), "kimi-a", "us-east-2a", claim, (), COPY, image="registry.test/x:1")
    kubernetes_validate.validate(made, "1.36", strict=True)
    images = {container["image"] for container in made["spec"]["template"]["spec"]["containers"]}
    assert images == {"registry.test/x:1"}


def test_the_copy_is_whole_or_the_pod_starts_again(tmp_path: Path) -> None:
    source, target = tmp_path / "volume", tmp_path / "disk" / "kimi"
    (source / ".dormouse").mkdir(parents=True)
    files = {f"model-{i:05}.safetensors": bytes([i]) * (100_000 + i) for i in range(40)} | {
        ".dormouse/verified.json": b"{}",
        "with space.json": b"1",
    }
    for name, content in files.items():
        (source / name).write_bytes(content)

    def run() -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", COPY_SCRIPT, "nvme-copy", str(source), str(target)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run()
    assert (done.returncode, "42 files are on the node's disk" in done.stdout) == (0, True), done.stderr
    assert {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()} == files
    # A second run after a kill finds half a file and makes it whole; a file in the way of a folder ends it.
    (target / "model-00000.safetensors").write_bytes(b"half")
    assert run().returncode == 0
    assert (target / "model-00000.safetensors").read_bytes() == files["model-00000.safetensors"]
    (target / "with space.json").unlink()
    (target / "with space.json").mkdir()
    (target / "with space.json" / "with space.json").mkdir()
    assert run().returncode != 0
    source.rename(tmp_path / "gone")
    assert "dormouse weights hydrate fills it" in run().stderr


def test_only_a_server_that_reads_s3_may_leave_the_cluster() -> None:
    closed = network_policy(NAMES, Access(), [], [])["spec"]["egress"]
    opened = network_policy(NAMES, Access(), [], [], reads_s3=True)
    assert [rule["ports"][0]["port"] for rule in closed] == [53]
    kubernetes_validate.validate(opened, "1.36", strict=True)
    tls, agent = opened["spec"]["egress"][1:]
    assert tls["ports"] == [{"port": 443, "protocol": "TCP"}]
    assert "10.0.0.0/8" in tls["to"][0]["ipBlock"]["except"]
    assert agent["to"] == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]


def test_what_the_image_adds_to_a_wake_is_said_with_its_source() -> None:
    plain, parallel, cache, baked = pull_estimates(60.0, parallel=True)
    assert "adds 1 to 4 min, $1.00 to $4.00 to a wake" in plain.text
    assert (parallel.saves_low_s, parallel.saves_high_s, parallel.in_use) == (pytest.approx(1.8), 120, True)
    assert cache.saves_high_s is None
    assert baked.saves_high_s == 240
    assert all(one.source for one in (plain, parallel, cache, baked))
    assert "off: imagePull is standard" in pull_estimates(None, parallel=False)[1].text

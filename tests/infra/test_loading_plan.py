"""The comparison of loading paths as people and programs read it, and its keys."""

import base64
import json
from pathlib import Path

import pytest

from components import ModelServer
from infra.cli.main import main
from infra.loading_plan import plan_loading
from infra.loading_text import loading_lines
from infra.plan import plan_environment
from infra.pricing import find_price
from tests.components.test_model_server import arguments
from tests.infra.test_environment import environment, faults
from tests.support.recording import Recording, record

SECRET = "arn:aws:secretsmanager:us-east-2:123456789012:secret:ecr-pullthroughcache/hub-Ab1"


def test_every_path_is_a_row_and_the_choice_is_marked_and_explained() -> None:
    plan = plan_loading(environment())
    lines = loading_lines(plan)
    assert lines[0] == "Ways to load, at 22 wakes a month (the timetable) and $26.57 an hour (spot):"
    (marked,) = [line for line in lines if line.startswith("  > ")]
    assert marked.split()[1:4] == ["volume-prefetch", "9.5", "(9–19)"]
    assert [line.split()[0] for line in lines[2:10] if not line.startswith("  > ")] == [
        "volume", "volume-streamer", "snapshot-clone", "snapshot-clone-rated", "s3-streamer", "nvme-copy", "nvme-copy-s3",
    ]  # fmt: skip
    assert "unknown" in lines[5]
    assert "needs the regional copy in S3 (weightsS3Copy: true)" in lines[7]
    assert lines[11].startswith(
        "  Volume-prefetch is the cheapest of the 4 paths that can be taken, even at its slow end"
    )
    assert all(len(line.split("  ")) > 1 for line in lines[2:10])


def test_the_chosen_path_decides_the_start_that_is_planned() -> None:
    fast, slow = plan_environment(environment()), plan_environment(environment(loadingPath="volume"))
    assert (fast.loading, slow.loading) == ("volume-prefetch", "volume")
    assert fast.planned_load_s < slow.planned_load_s
    assert fast.startup_window_s <= slow.startup_window_s


def test_a_loader_of_the_user_s_own_reads_the_volume() -> None:
    own = environment(extraArgs=["--load-format=instanttensor"])
    choice = plan_loading(own).choice
    assert (choice.path, choice.reason) == ("volume", "volume, as extraArgs says")


def test_wakes_come_from_the_key_the_timetable_or_one_a_working_day() -> None:
    assert environment().loading.wakes_per_month == pytest.approx(5 * 730 / 168)
    assert environment(timetable=["daily 22:00-02:00", "daily 02:00-03:00"]).loading.wakes_per_month == pytest.approx(
        7 * 730 / 168
    ), "stretches that touch are one wake"
    assert environment(timetable=[]).loading.wakes_per_month == 22
    assert environment(wakesPerMonth="3").loading.wakes_per_month == 3
    (dearer, cheaper) = (plan_loading(environment(wakesPerMonth=n)).choice.estimate.usd_per_month(n) for n in (60, 3))
    assert dearer > cheaper


def test_faults_name_key_value_and_what_works() -> None:
    (fault,) = faults(loadingPath="s3-streamer")
    assert fault == (
        "dormouse:loadingPath: got s3-streamer; accepted: volume or volume-prefetch or volume-streamer or nvme-copy;"
        " s3-streamer needs the regional copy in S3 (weightsS3Copy: true)"
    )
    (fault,) = faults(loadingPath="volume-prefetch", extraArgs=["--load-format=instanttensor"])
    assert fault == (
        "dormouse:extraArgs: got --load-format; accepted: none of them with loadingPath volume-prefetch, which sets"
        " them itself"
    )
    assert "did you mean volume-prefetch?" in faults(loadingPath="volume-prefetched")[0]
    assert faults(imageCache="ecr")[0].startswith("dormouse:imageCacheSecretArn: got nothing; accepted: the ARN")
    assert faults(imageCacheSecretArn=SECRET)[0].endswith("accepted: nothing, unless imageCache is ecr")
    assert "ecr-pullthroughcache/" in faults(imageCache="ecr", imageCacheSecretArn="arn:aws:iam::1:user/x")[0]
    assert len(faults(loadingPath="tape", imagePull="lazy", imageCache="s3", wakesPerMonth="0")) == 4


def test_json_has_every_path_with_nulls_for_what_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "Pulumi.dev.yaml", "--json"]) == 0
    loading = json.loads(capsys.readouterr().out)["loading"]
    assert loading["path"] == "volume-prefetch"
    rows = {row["path"]: row for row in loading["paths"]}
    assert rows["volume-prefetch"]["likelyS"] == 568
    assert rows["volume-prefetch"]["available"]
    assert rows["snapshot-clone"]["likelyS"] is None
    assert rows["s3-streamer"]["needs"] == "the regional copy in S3 (weightsS3Copy: true)"
    assert [row["way"] for row in loading["imagePull"]] == ["plain", "parallel", "ecr", "baked"]


def test_an_unknown_region_has_unknown_dollars_and_a_choice_by_time() -> None:
    north = environment(region="eu-north-1", capacity=[{"purchase": "spot", "zone": "eun1-az1"}])
    plan = plan_loading(north)
    assert plan.usd_per_hour is None
    assert find_price("s3.standard.gb-month", "eu-north-1") is None
    assert plan.choice.reason.startswith("volume-prefetch is the quickest even at its slow end")
    assert "unknown price" in loading_lines(plan)[0]


def user_data(made: Recording) -> str:
    return base64.b64decode(made.one("LaunchTemplate", "server-spot").inputs["userData"]).decode()


def test_components_carry_path_pull_and_cache() -> None:
    plain = record(lambda: ModelServer("server", arguments()) and None)
    assert "FastImagePull" not in user_data(plain)
    assert plain.of("PullThroughCacheRule") == []
    args = plain.of("Deployment")[0].inputs["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not any(argument.startswith(("--load-format", "--safetensors")) for argument in args)

    made = record(
        lambda: (
            ModelServer(
                "server",
                arguments(loading_path="volume-prefetch", image_cache_secret_arn=SECRET, parallel_image_pull=True),
            )
            and None
        )
    )
    assert "  featureGates:\n    FastImagePull: true" in user_data(made)
    (rule,) = made.of("PullThroughCacheRule")
    assert rule.inputs["upstreamRegistryUrl"] == "registry-1.docker.io"
    assert rule.inputs["credentialArn"] == SECRET
    container = made.of("Deployment")[0].inputs["spec"]["template"]["spec"]["containers"][0]
    assert container["image"].startswith("123456789012.dkr.ecr.us-east-2.amazonaws.com/server-hub/vllm/vllm-openai:v")
    assert "--safetensors-load-strategy=prefetch" in container["args"]
    (policy,) = [one for one in made.of("RolePolicy") if one.name == "server-images"]
    (statement,) = json.loads(policy.inputs["policy"])["Statement"]
    assert statement["Action"] == ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"]
    assert statement["Resource"] == ["arn:aws:ecr:us-east-2:123456789012:repository/server-hub/*"]


def test_streaming_from_s3_opens_the_fence_and_wants_the_copy() -> None:
    made = record(lambda: ModelServer("server", arguments(loading_path="s3-streamer", weights_s3_copy=True)) and None)
    pod = made.of("Deployment")[0].inputs["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][0] == "s3://server-weights-123456789012-us-east-2/kimi-k2.5"
    assert {"name": "AWS_REGION", "value": "us-east-2"} in pod["containers"][0]["env"]
    assert len(made.of("NetworkPolicy")[0].inputs["spec"]["egress"]) == 3
    with pytest.raises(Exception, match="s3_uri"):
        record(lambda: ModelServer("server", arguments(loading_path="s3-streamer")) and None)

"""The regional copy in S3: a closed bucket, roles that reach one folder, and zones that load from it."""

import json
from typing import Any

import pytest

from components import ModelServer
from tests.components.test_model_server import arguments
from tests.support.recording import Recording, Registration, record

BUCKET = "server-weights-123456789012-us-east-2"
FOLDER = f"{BUCKET}/kimi-k2.5"


@pytest.fixture(scope="module")
def made() -> Recording:
    """Zone a keeps a volume, zone c streams."""
    given = arguments(weights_s3_copy=True, volume_zones=["us-east-2a"], weights_source="s3://elsewhere/models/kimi")
    return record(lambda: ModelServer("server", given) and None)


def named(made: Recording, kind: str, name: str) -> Registration:
    (found,) = (one for one in made.of(kind) if one.name == name)
    return found


def granted(made: Recording, name: str) -> dict[str, list[str]]:
    """What a role may do, by action."""
    statements = json.loads(named(made, "RolePolicy", name).inputs["policy"])["Statement"]
    assert {one["Effect"] for one in statements} == {"Allow"}
    return {action: one["Resource"] for one in statements for action in one["Action"]}


def test_the_bucket_is_closed_encrypted_speaks_tls_and_outlives_the_stack(made: Recording) -> None:
    (bucket,) = made.of("Bucket")
    assert bucket.inputs["bucket"] == BUCKET
    assert (bucket.protect, bucket.retain_on_delete) == (True, True)
    assert bucket.inputs["tags"]["dormouse.dev/environment"] == "test"
    (closed,) = made.of("BucketPublicAccessBlock")
    assert [closed.inputs[key] for key in sorted(closed.inputs) if key != "bucket"] == [True] * 4
    (encryption,) = made.of("BucketServerSideEncryptionConfiguration")
    assert encryption.inputs["rules"] == [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]
    (lifecycle,) = made.of("BucketLifecycleConfiguration")
    assert lifecycle.inputs["rules"][0]["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 7}
    (policy,) = made.of("BucketPolicy")
    (statement,) = json.loads(policy.inputs["policy"])["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Resource"] == [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert all(one.retain_on_delete for one in (closed, encryption, lifecycle, policy))


def test_the_hydrator_writes_the_copy_and_reads_its_source_and_a_server_only_reads_the_copy(made: Recording) -> None:
    hydrator, server = granted(made, "server-hydrator"), granted(made, "server-server")
    assert hydrator["s3:GetObject"] == ["arn:aws:s3:::elsewhere/models/kimi/*", f"arn:aws:s3:::{FOLDER}/*"]
    assert hydrator["s3:PutObject"] == [f"arn:aws:s3:::{FOLDER}/*"]
    assert server == {"s3:GetObject": [f"arn:aws:s3:::{FOLDER}/*"], "s3:ListBucket": [f"arn:aws:s3:::{BUCKET}"]}
    accounts = {one.name: one.inputs for one in made.of("PodIdentityAssociation")}
    held = {one.inputs["metadata"]["name"] for one in made.of("ServiceAccount")}
    assert {accounts[name]["serviceAccount"] for name in ("server-hydrator", "server-server")} == held
    assert {one["namespace"] for one in accounts.values()} == {"server"}


def test_the_download_fills_the_copy_and_runs_where_a_volume_is(made: Recording) -> None:
    (job,) = made.of("CronJob")
    assert job.inputs["metadata"]["name"] == "weights-us-east-2a"
    (container,) = job.inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert values["DORMOUSE_COPY_TO"] == f"s3://{FOLDER}"
    assert values["AWS_REGION"] == "us-east-2"


def test_a_zone_without_a_volume_streams_and_its_pods_stay_there(made: Recording) -> None:
    assert [one.inputs["availabilityZone"] for one in made.of("Volume")] == ["us-east-2a"]
    pods: dict[str, dict[str, Any]] = {
        one.inputs["metadata"]["name"]: one.inputs["spec"]["template"]["spec"] for one in made.of("Deployment")
    }
    assert set(pods) == {"kimi-k2-5-us-east-2a", "kimi-k2-5-us-east-2c"}
    bare = pods["kimi-k2-5-us-east-2c"]
    assert not [one for one in bare["volumes"] if "persistentVolumeClaim" in one]
    assert bare["containers"][0]["args"][0] == f"s3://{FOLDER}"
    assert bare["nodeSelector"]["topology.kubernetes.io/zone"] == "us-east-2c"
    kept = pods["kimi-k2-5-us-east-2a"]
    (claim,) = (one["persistentVolumeClaim"] for one in kept["volumes"] if "persistentVolumeClaim" in one)
    assert claim == {"claimName": "server-weights-us-east-2a"}
    assert "topology.kubernetes.io/zone" not in kept["nodeSelector"]


def test_a_source_in_s3_alone_gives_the_hydrator_its_region_and_a_role_to_read() -> None:
    made = record(lambda: ModelServer("server", arguments(weights_source="s3://elsewhere/kimi")) and None)
    assert granted(made, "server-hydrator") == {
        "s3:GetObject": ["arn:aws:s3:::elsewhere/kimi/*"],
        "s3:ListBucket": ["arn:aws:s3:::elsewhere"],
    }
    assert not made.of("Bucket")
    container = made.of("CronJob")[0].inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    names = {one["name"] for one in container["env"]}
    assert "AWS_REGION" in names
    assert "DORMOUSE_COPY_TO" not in names


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"volume_zones": ["us-east-2a"]}, "got none of us-east-2c; accepted: those as well, or weights_s3_copy"),
        (
            {"volume_zones": ["us-east-2z"], "weights_s3_copy": True},
            "got us-east-2z; accepted: zones of the candidates",
        ),
    ],
)
def test_zones_that_could_not_load_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said):
        record(lambda: ModelServer("server", arguments(**changes)) and None)

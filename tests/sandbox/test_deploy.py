"""Running a Pulumi program in process: real SDK, simulated AWS over HTTP, stand-in API server over HTTP."""

import json
from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_aws as aws_sdk
import pulumi_kubernetes as kubernetes_sdk
import pytest

from components import WeightStore
from infra.clock import SystemClock
from infra.sandbox.aws_resources import AwsClients
from infra.sandbox.deploy import Deployment, DeploymentError, ResourceEvent, ResourceFailedError, deploy
from infra.sandbox.kubernetes.server import KubernetesServer
from infra.sandbox.kubernetes_objects import object_path
from serving.errors import ConfigurationError, DormouseError, Fault, UnknownFactError

CONFIG = {"aws:region": "us-east-2", "aws:defaultTags": '{"tags": {"owner": "team"}}', "app:password": "hunter2"}


class Pair(pulumi.ComponentResource):
    """A volume that is kept, and a secret."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Pair", name)
        volume = aws_sdk.ebs.Volume(
            "weights",
            availability_zone="us-east-2a",
            size=10,
            type="gp3",
            tags={"Name": "weights"},
            opts=pulumi.ResourceOptions(
                parent=self, protect=True, retain_on_delete=True, ignore_changes=["snapshotId"]
            ),
        )
        secret = aws_sdk.secretsmanager.Secret("key", opts=pulumi.ResourceOptions(parent=self, depends_on=[volume]))
        password = pulumi.Config("app").require_secret("password")
        version = aws_sdk.secretsmanager.SecretVersion(
            "key", secret_id=secret.id, secret_string=password, opts=pulumi.ResourceOptions(parent=self)
        )
        self.volume_id, self.secret_id, self.password = volume.id, secret.id, version.secret_string
        self.register_outputs({"volumeId": volume.id})


def pair() -> None:
    made = Pair("pair")
    pulumi.export("volume", made.volume_id)
    pulumi.export("secretId", made.secret_id)
    pulumi.export("password", made.password)
    pulumi.export("account", aws_sdk.get_caller_identity().account_id)
    pulumi.export("sizes", {"whole": 3, "half": 0.5})
    pulumi.log.info("made a pair")


def declare(token: str, name: str, inputs: dict[str, str]) -> None:
    """A resource whose arguments no SDK has looked at."""
    pulumi.CustomResource(token, name, dict(inputs))


def run(clients: AwsClients, program: Callable[[], None], **options: Any) -> Deployment:
    return deploy(program, CONFIG, secret_keys=["app:password"], aws_endpoint_url=clients.endpoint_url, **options)


def test_resources_are_made_in_order_and_recorded(aws: AwsClients) -> None:
    events: list[ResourceEvent] = []
    done = run(aws, pair, on_resource=events.append)

    volume = done.resource("aws:ebs/volume:Volume", "weights")
    secret = done.resource("aws:secretsmanager/secret:Secret", "key")
    assert volume.urn == "urn:pulumi:dev::dormouse::test:index:Pair$aws:ebs/volume:Volume::weights"
    assert volume.parent == "urn:pulumi:dev::dormouse::test:index:Pair::pair"
    assert (volume.protect, volume.retain_on_delete, volume.ignore_changes) == (True, True, ("snapshotId",))
    assert (secret.protect, secret.retain_on_delete, secret.ignore_changes) == (False, False, ())
    assert secret.depends_on == (volume.urn,)
    assert secret.started_s >= volume.started_s + volume.took_s
    component = done.resource("test:index:Pair", "pair")
    assert (component.custom, component.parent, component.outputs) == (False, None, {"volumeId": volume.id})
    assert [(event.kind, event.name) for event in events] == [
        (kind, name) for name in ("weights", "key", "key") for kind in ("creating", "created")
    ]
    assert done.diagnostics == ("info: made a pair",)

    found = aws.client("ec2").describe_volumes(VolumeIds=[volume.id])["Volumes"][0]
    assert (found["Size"], found["AvailabilityZone"]) == (10, "us-east-2a")
    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == {"owner": "team", "Name": "weights"}
    with pytest.raises(UnknownFactError, match="no aws:ebs/volume:Volume named other; there are: weights"):
        done.resource("aws:ebs/volume:Volume", "other")


def test_secrets_reach_aws_and_are_masked_everywhere_else(aws: AwsClients) -> None:
    done = run(aws, pair)
    assert done.outputs["password"] == "[secret]"
    assert done.secret_outputs == {"password"}
    version = done.resource("aws:secretsmanager/secretVersion:SecretVersion", "key")
    assert "secretString" in version.secret_properties
    assert "hunter2" not in repr(done)
    stored = aws.client("secretsmanager").get_secret_value(SecretId=done.outputs["secretId"])
    assert stored["SecretString"] == "hunter2"
    assert (done.outputs["account"], done.outputs["sizes"]) == ("123456789012", {"whole": 3, "half": 0.5})


def test_the_copy_s_bucket_is_made_as_the_component_says_and_takes_objects(aws: AwsClients) -> None:
    def program() -> None:
        store = WeightStore("copy", {"bucket_name": "dev-weights", "model": "kimi-k2.5", "tags": {"a": "b"}})
        pulumi.export("uri", store.uri)

    done = run(aws, program)
    assert done.outputs["uri"] == "s3://dev-weights/kimi-k2.5"
    s3 = aws.client("s3")
    # Its policy refuses requests without TLS; the simulated S3 takes every caller for one with.
    s3.put_object(Bucket="dev-weights", Key="kimi-k2.5/config.json", Body=b"{}")
    assert s3.get_object(Bucket="dev-weights", Key="kimi-k2.5/config.json")["Body"].read() == b"{}"
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket="dev-weights")["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert {tag["Key"] for tag in s3.get_bucket_tagging(Bucket="dev-weights")["TagSet"]} >= {"a", "owner", "Name"}
    with pytest.raises(ResourceFailedError, match=r"creating S3 Bucket \(dev-weights\): .*BucketAlreadyOwnedByYou"):
        run(aws, program)


def test_an_explicit_provider_has_its_own_region_and_tags(aws: AwsClients) -> None:
    def program() -> None:
        west = aws_sdk.Provider("west", region="us-west-2", default_tags={"tags": {"side": "west"}})
        aws_sdk.sns.Topic("alerts", opts=pulumi.ResourceOptions(provider=west))

    topic = run(aws, program).resource("aws:sns/topic:Topic", "alerts")
    assert str(topic.id).startswith("arn:aws:sns:us-west-2:123456789012:alerts-")
    assert topic.outputs["tagsAll"] == {"side": "west"}


def test_a_refusal_of_aws_names_the_resource_and_says_nothing_else(
    aws: AwsClients, capfd: pytest.CaptureFixture[str]
) -> None:
    events: list[ResourceEvent] = []

    def program() -> None:
        vpc = aws_sdk.ec2.Vpc("net", cidr_block="10.0.0.0/16")
        outside = aws_sdk.ec2.Subnet("outside", vpc_id=vpc.id, cidr_block="192.168.0.0/24")
        pulumi.export("zone", outside.availability_zone.apply(str.upper))

    with pytest.raises(ResourceFailedError) as refused:
        run(aws, program, on_resource=events.append)
    assert str(refused.value).startswith("aws:ec2/subnet:Subnet (outside): creating EC2 Subnet (outside): ")
    assert "InvalidSubnet.Range" in str(refused.value)
    assert [event.name for event in events if event.kind == "failed"] == ["outside"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"cidrBlok": "10.0.0.0/16"}, "cidrBlok is not an argument .* did you mean cidrBlock?"),
        ({}, "missing required argument cidrBlock"),
    ],
)
def test_wrong_arguments_never_reach_aws(aws: AwsClients, inputs: dict[str, str], words: str) -> None:
    before = len(aws.client("ec2").describe_vpcs()["Vpcs"])
    with pytest.raises(ResourceFailedError, match=words):
        run(aws, lambda: declare("aws:ec2/vpc:Vpc", "net", inputs))
    assert len(aws.client("ec2").describe_vpcs()["Vpcs"]) == before


def test_two_resources_of_one_name_are_refused(aws: AwsClients) -> None:
    def program() -> None:
        for _ in range(2):
            aws_sdk.ec2.Eip("nat", domain="vpc")

    with pytest.raises(
        ResourceFailedError, match="duplicate resource URN 'urn:pulumi:dev::dormouse::aws:ec2/eip:Eip::nat'"
    ):
        run(aws, program)


def test_a_type_nobody_covers_is_refused(aws: AwsClients) -> None:
    with pytest.raises(ResourceFailedError, match="no resource type random:index/randomId:RandomId; covered: aws:"):
        run(aws, lambda: declare("random:index/randomId:RandomId", "id", {}))


def test_the_programs_own_errors_come_through(aws: AwsClients) -> None:
    def wrong_configuration() -> None:
        raise ConfigurationError([Fault("dormouse:zone", "mars", "a zone")])

    def run_error() -> None:
        raise pulumi.RunError("no such environment")

    def slip() -> None:
        _ = {}["key"]

    with pytest.raises(ConfigurationError, match="dormouse:zone: got mars"):
        run(aws, wrong_configuration)
    with pytest.raises(DeploymentError, match=r"^no such environment$"):
        run(aws, run_error)
    with pytest.raises(DeploymentError, match="the program failed: KeyError: 'key'"):
        run(aws, slip)


def test_a_second_run_starts_afresh(aws: AwsClients) -> None:
    def read_config() -> None:
        pulumi.export("value", pulumi.Config("app").get("value") or "none")

    first = deploy(read_config, {"app:value": "one"}, aws_endpoint_url=aws.endpoint_url)
    second = deploy(read_config, {}, aws_endpoint_url=aws.endpoint_url, project="other", stack="prod")
    assert (first.outputs, second.outputs) == ({"value": "one"}, {"value": "none"})


def objects() -> None:
    space = kubernetes_sdk.core.v1.Namespace("space", metadata={"name": "models"})
    account = kubernetes_sdk.core.v1.ServiceAccount("account", metadata={"namespace": space.metadata["name"]})
    kubernetes_sdk.core.v1.Secret(
        "key", metadata={"namespace": "models", "name": "key"}, string_data={"key": pulumi.Output.secret("hunter2")},
        opts=pulumi.ResourceOptions(depends_on=[space]),
    )  # fmt: skip
    pulumi.export("account", account.metadata["name"])
    pulumi.export("uid", space.metadata["uid"])


def test_kubernetes_objects_are_applied_to_the_api_server(aws: AwsClients) -> None:
    with KubernetesServer(SystemClock()) as server:
        done = run(aws, objects, kubernetes_url=server.url)
        again = run(aws, objects, kubernetes_url=server.url)
    assert done.resource("kubernetes:core/v1:ServiceAccount", "account").id == f"models/{done.outputs['account']}"
    assert str(done.outputs["account"]).startswith("account-")
    assert again.outputs["uid"] == done.outputs["uid"]
    assert done.resource("kubernetes:core/v1:Secret", "key").inputs["stringData"] == "[secret]"
    assert "hunter2" not in repr(done)


def test_a_refusal_of_the_api_server_keeps_its_words(aws: AwsClients) -> None:
    def program() -> None:
        kubernetes_sdk.core.v1.ConfigMap("files", metadata={"namespace": "nowhere", "name": "files"})

    with KubernetesServer(SystemClock()) as server, pytest.raises(ResourceFailedError) as refused:
        run(aws, program, kubernetes_url=server.url)
    assert 'HTTP 404: namespaces "nowhere" not found' in str(refused.value)


def test_without_an_api_server_objects_are_recorded_only(aws: AwsClients) -> None:
    def program() -> None:
        kubernetes_sdk.core.v1.Namespace("space", metadata={"name": "models"})

    space = run(aws, program).resource("kubernetes:core/v1:Namespace", "space")
    assert (space.id, space.outputs["metadata"]) == ("models", {"name": "models"})


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Namespace", "/api/v1/namespaces/x"),
        ("v1", "Endpoints", "/api/v1/namespaces/default/endpoints/x"),
        ("networking.k8s.io/v1", "NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/x"),
        ("networking.k8s.io/v1", "Ingress", "/apis/networking.k8s.io/v1/namespaces/default/ingresses/x"),
        ("storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses/x"),
        ("gateway.networking.k8s.io/v1", "Gateway", "/apis/gateway.networking.k8s.io/v1/namespaces/default/gateways/x"),
    ],
)
def test_object_paths_follow_the_api_server(version: str, kind: str, path: str) -> None:
    assert object_path({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}) == path


def test_another_endpoint_in_the_configuration_is_refused(aws: AwsClients) -> None:
    with pytest.raises(DormouseError, match="aws_endpoint_url"):
        deploy(pair, {"aws:endpoints": json.dumps([{"ec2": "http://x"}])}, aws_endpoint_url=aws.endpoint_url)

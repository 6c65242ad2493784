"""The provider plugin over gRPC, called as Pulumi's engine calls it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from infra.sandbox.aws_resources import AwsClients
from infra.sandbox.aws_resources.properties import UNKNOWN
from infra.sandbox.pulumi_provider import VERSION, AwsProvider, install_plugin, serve
from tests.sandbox.aws_account import TRUST, Surroundings

VOLUME = "aws:ebs/volume:Volume"
ROLE = "aws:iam/role:Role"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODES = "aws:eks/nodeGroup:NodeGroup"
SIZES = {"availabilityZone": "us-east-2a", "size": 10, "type": "gp3"}
DIFF = provider_pb2.DiffResponse
KIND = provider_pb2.PropertyDiff


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    result = struct_pb2.Struct()
    result.update(values)
    return result


def plain(values: struct_pb2.Struct) -> dict[str, Any]:
    return json_format.MessageToDict(values)


def urn(token: str, name: str = "it") -> str:
    return f"urn:pulumi:dev::dormouse::test:index:Parent${token}::{name}"


class Engine:
    """As much of Pulumi's engine as these tests need: what it remembers of one resource."""

    def __init__(self, stub: Any, token: str, name: str = "it") -> None:
        self.stub, self.urn = stub, urn(token, name)
        self.id, self.inputs, self.state = "", {}, {}

    def check(self, **news: Any) -> dict[str, Any]:
        request = provider_pb2.CheckRequest(
            urn=self.urn, olds=struct(self.inputs), news=struct(news), randomSeed=b"seed"
        )
        answer = self.stub.Check(request)
        assert [failure.reason for failure in answer.failures] == []
        return plain(answer.inputs)

    def diff(self, new: dict[str, Any], ignored: tuple[str, ...] = ()) -> Any:
        return self.stub.Diff(
            provider_pb2.DiffRequest(
                id=self.id,
                urn=self.urn,
                olds=struct(self.state),
                old_inputs=struct(self.inputs),
                news=struct(new),
                ignoreChanges=ignored,
            )
        )

    def create(self, **news: Any) -> "Engine":
        self.inputs = self.check(**news)
        answer = self.stub.Create(provider_pb2.CreateRequest(urn=self.urn, properties=struct(self.inputs)))
        self.id, self.state = answer.id, plain(answer.properties)
        return self

    def update(self, *, preview: bool = False, **news: Any) -> dict[str, Any]:
        new = self.check(**news)
        answer = self.stub.Update(
            provider_pb2.UpdateRequest(
                id=self.id,
                urn=self.urn,
                olds=struct(self.state),
                old_inputs=struct(self.inputs),
                news=struct(new),
                preview=preview,
            )
        )
        if not preview:
            self.inputs, self.state = new, plain(answer.properties)
        return plain(answer.properties)

    def read(self) -> Any:
        return self.stub.Read(
            provider_pb2.ReadRequest(
                id=self.id, urn=self.urn, properties=struct(self.state), inputs=struct(self.inputs)
            )
        )

    def delete(self) -> None:
        self.stub.Delete(provider_pb2.DeleteRequest(id=self.id, urn=self.urn, properties=struct(self.state)))


def connect(endpoint_url: str | None, configure: dict[str, Any]) -> Iterator[Any]:
    server, port = serve(AwsProvider(endpoint_url))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        try:
            stub.Configure(provider_pb2.ConfigureRequest(args=struct(configure)))
            yield stub
        finally:
            server.stop(None).wait()


@pytest.fixture(scope="module")
def plugin(aws: AwsClients) -> Iterator[Any]:
    settings = {
        "region": "us-east-2",
        "defaultTags": '{"tags": {"owner": "team"}}',
        "allowedAccountIds": '["123456789012"]',
    }
    yield from connect(aws.endpoint_url, settings)


def refusal(endpoint_url: str | None, settings: dict[str, Any]) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        next(connect(endpoint_url, settings))
    return str(refused.value.details())


def test_it_says_what_it_is_and_what_it_speaks(plugin: Any) -> None:
    shaken = plugin.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))
    assert (shaken.accept_secrets, shaken.accept_resources, shaken.supports_autonaming_configuration) == (
        False,
        False,
        True,
    )
    assert plugin.GetPluginInfo(empty_pb2.Empty()).version == VERSION == "7.51.1"
    schema = json.loads(plugin.GetSchema(provider_pb2.GetSchemaRequest()).schema)
    assert schema["name"] == "aws"
    assert schema["resources"][ROLE]["requiredInputs"] == ["assumeRolePolicy"]


def test_it_never_connects_where_it_must_not(aws: AwsClients, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert "AWS_ENDPOINT_URL is not set" in refusal(None, {"region": "us-east-2"})
    assert "must listen on this machine" in refusal("https://sts.amazonaws.com", {"region": "us-east-2"})
    assert "missing region" in refusal(aws.endpoint_url, {})
    assert "account ID not allowed: 123456789012; accepted: 999999999999" in refusal(
        aws.endpoint_url, {"region": "us-east-2", "allowedAccountIds": '["999999999999"]'}
    )


def test_configuration_is_checked_and_another_region_replaces(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    failures = plugin.CheckConfig(provider_pb2.CheckRequest(news=struct({}))).failures
    assert [failure.property for failure in failures] == ["region"]
    old, new = struct({"region": "us-east-2", "defaultTags": "{}"}), struct({"region": "us-west-2", "defaultTags": "x"})
    found = plugin.DiffConfig(provider_pb2.DiffRequest(old_inputs=old, news=new))
    assert (list(found.diffs), list(found.replaces)) == (["defaultTags", "region"], ["region"])
    assert plugin.DiffConfig(provider_pb2.DiffRequest(old_inputs=old, news=old)).changes == DIFF.DIFF_NONE


def test_a_resource_through_its_whole_life(aws: AwsClients, plugin: Any) -> None:
    volume = Engine(plugin, VOLUME).create(**SIZES, tags={"Name": "weights"})
    assert volume.id.startswith("vol-")
    assert volume.state["tagsAll"] == {"owner": "team", "Name": "weights"}
    assert volume.diff(volume.check(**SIZES, tags={"Name": "weights"})).changes == DIFF.DIFF_NONE

    bigger = {**SIZES, "size": 20, "tags": {"Name": "more"}}
    found = volume.diff(volume.check(**bigger))
    assert found.changes == DIFF.DIFF_SOME
    assert {path: one.kind for path, one in found.detailedDiff.items()} == {
        "size": KIND.UPDATE,
        "tags.Name": KIND.UPDATE,
        "tagsAll.Name": KIND.UPDATE,
    }
    assert list(found.replaces) == []
    assert "arn" in found.stables
    assert volume.update(preview=True, **bigger)["size"] == 20
    assert aws.client("ec2").describe_volumes(VolumeIds=[volume.id])["Volumes"][0]["Size"] == 10
    volume.update(**bigger)
    assert aws.client("ec2").describe_volumes(VolumeIds=[volume.id])["Volumes"][0]["Size"] == 20

    volume.delete()
    assert volume.read().id == ""
    volume.delete()


def test_another_zone_replaces_and_a_fixed_name_goes_first(plugin: Any) -> None:
    volume = Engine(plugin, VOLUME).create(**SIZES)
    found = volume.diff(volume.check(**{**SIZES, "availabilityZone": "us-east-2b"}))
    assert list(found.replaces) == ["availabilityZone"]
    assert found.detailedDiff["availabilityZone"].kind == KIND.UPDATE_REPLACE
    assert not found.deleteBeforeReplace

    named = Engine(plugin, ROLE).create(name="fixed", assumeRolePolicy=TRUST)
    assert named.diff(named.check(name="fixed", assumeRolePolicy=TRUST, path="/team/")).deleteBeforeReplace
    unnamed = Engine(plugin, ROLE).create(assumeRolePolicy=TRUST)
    found = unnamed.diff(unnamed.check(assumeRolePolicy=TRUST, path="/team/"))
    assert (list(found.replaces), found.deleteBeforeReplace) == (["path"], False)


def test_a_refresh_shows_what_was_changed_by_hand_and_nothing_else(aws: AwsClients, plugin: Any) -> None:
    volume = Engine(plugin, VOLUME).create(**SIZES, throughput=125)
    same = volume.read()
    assert (plain(same.properties), plain(same.inputs)) == (volume.state, volume.inputs)
    aws.client("ec2").modify_volume(VolumeId=volume.id, Throughput=300)
    aws.client("ec2").create_tags(Resources=[volume.id], Tags=[{"Key": "hand", "Value": "made"}])
    seen = volume.read()
    assert plain(seen.inputs)["throughput"] == plain(seen.properties)["throughput"] == 300
    assert plain(seen.inputs)["tags"] == {"hand": "made"}
    volume.inputs = plain(seen.inputs)
    found = volume.diff(volume.check(**SIZES, throughput=125))
    assert set(found.diffs) == {"tags", "tagsAll", "throughput"}


def test_a_size_left_to_others_is_ignored(plugin: Any) -> None:
    sizes = [{"scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": size}} for size in (1, 0)]
    nodes = Engine(plugin, NODES)
    nodes.inputs = sizes[0]
    assert list(nodes.diff(sizes[1]).detailedDiff) == ["scalingConfig.desiredSize"]
    assert nodes.diff(sizes[1], ("scalingConfig.desiredSize",)).changes == DIFF.DIFF_NONE


def test_a_preview_knows_what_it_can_and_makes_nothing(aws: AwsClients, plugin: Any) -> None:
    before = len(aws.client("iam").list_roles()["Roles"])
    role = Engine(plugin, ROLE, "node")
    inputs = role.check(assumeRolePolicy=UNKNOWN)
    request = provider_pb2.CreateRequest(urn=role.urn, properties=struct(inputs), preview=True)
    shown = plain(plugin.Create(request).properties)
    assert (shown["arn"], shown["assumeRolePolicy"], shown["path"]) == (UNKNOWN, UNKNOWN, "/")
    assert shown["name"] == role.check(assumeRolePolicy=TRUST)["name"]
    assert len(aws.client("iam").list_roles()["Roles"]) == before

    template = Engine(plugin, TEMPLATE).create(instanceType="m7i.large")
    shown = template.update(preview=True, instanceType="m7i.xlarge")
    assert (shown["latestVersion"], shown["arn"]) == (UNKNOWN, template.state["arn"])


def test_wrong_arguments_are_failures_of_their_properties(plugin: Any) -> None:
    request = provider_pb2.CheckRequest(urn=urn(VOLUME), news=struct({"availabilityZone": "a", "size": 1, "sizze": 2}))
    failures = plugin.Check(request).failures
    assert [(one.property, one.reason.rsplit("; ", 1)[1]) for one in failures] == [("sizze", "did you mean size?")]


def test_the_engines_own_naming_is_followed(plugin: Any) -> None:
    options = provider_pb2.CheckRequest.AutonamingOptions
    request = provider_pb2.CheckRequest(
        urn=urn(ROLE),
        news=struct({"assumeRolePolicy": TRUST}),
        autonaming=options(proposed_name="chosen", mode=options.ENFORCE),
    )
    assert plain(plugin.Check(request).inputs)["name"] == "chosen"
    request.autonaming.CopyFrom(options(mode=options.DISABLE))
    assert [one.property for one in plugin.Check(request).failures] == ["name"]


def test_refusals_of_aws_are_the_error(plugin: Any, around: Surroundings) -> None:
    nodes = Engine(plugin, NODES, "gpu")
    with pytest.raises(grpc.RpcError) as refused:
        nodes.create(
            clusterName=around.cluster.id,
            nodeRoleArn="arn:aws:iam::123456789012:role/nobody",
            subnetIds=[around.subnets[0].id],
            scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        )
    assert refused.value.code() == grpc.StatusCode.UNKNOWN
    assert str(refused.value.details()).startswith(f"creating EKS Node Group ({around.cluster.id}:gpu-")
    assert "CreateNodegroup" in str(refused.value.details())
    with pytest.raises(grpc.RpcError, match="no resource type aws:sqs/queue:Queue; covered: "):
        Engine(plugin, "aws:sqs/queue:Queue").create()


def test_what_exists_but_never_became_usable_is_kept_by_the_engine(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, aws: AwsClients
) -> None:
    monkeypatch.setattr("infra.sandbox.aws_resources.AwsClients.wait", _give_up)
    volume = Engine(plugin, VOLUME)
    with pytest.raises(grpc.RpcError) as refused:
        volume.create(**SIZES)
    metadata = dict(refused.value.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(failed)
    assert aws.client("ec2").describe_volumes(VolumeIds=[failed.id])["Volumes"][0]["Size"] == 10
    assert list(failed.reasons) == [refused.value.details()]


def _give_up(_self: AwsClients, what: str, *_: Any) -> None:
    from infra.sandbox.aws_resources import AwsResourceError

    raise AwsResourceError(f"gave up waiting for {what}")


def test_an_import_reads_without_anything_recorded(plugin: Any) -> None:
    made = Engine(plugin, VOLUME).create(**SIZES, tags={"Name": "weights"})
    imported = Engine(plugin, VOLUME)
    imported.id = made.id
    inputs = plain(imported.read().inputs)
    assert {key: inputs[key] for key in (*SIZES, "tags")} == {**SIZES, "tags": {"Name": "weights"}}


def test_functions_are_answered(plugin: Any) -> None:
    request = provider_pb2.InvokeRequest(tok="aws:index/getCallerIdentity:getCallerIdentity", args=struct({}))
    assert plain(getattr(plugin.Invoke(request), "return"))["accountId"] == "123456789012"


def test_the_installed_plugin_prints_its_port_and_serves(tmp_path: Path) -> None:
    executable = install_plugin(tmp_path, Path(sys.executable))
    assert executable == tmp_path / "plugins" / "resource-aws-v7.51.1" / "pulumi-resource-aws"
    process = subprocess.Popen([executable, "127.0.0.1:1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=10).version == VERSION
    finally:
        process.terminate()
        assert process.wait(10) == 0

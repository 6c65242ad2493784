"""What the components register, as Pulumi's engine would see it: children, options, documents."""

import base64
import json
from typing import Any

import pulumi
import pytest

from components import ModelServer, ModelServerArgs, Purchase
from infra.versions import kubernetes_minors
from tests.support.recording import Recording, record

RESERVATION = "cr-0123456789abcdef0"


def arguments(**changes: Any) -> ModelServerArgs:
    base: dict[str, Any] = {
        "account_id": "123456789012",
        "region": "us-east-2",
        "model": "kimi-k2.5",
        "instance_type": "p5e.48xlarge",
        "candidates": [
            {
                "slot": "block",
                "purchase": Purchase.CAPACITY_BLOCK,
                "zone": "us-east-2a",
                "reservation_id": RESERVATION,
            },
            {"slot": "spot", "purchase": Purchase.SPOT, "zone": "us-east-2c"},
            {"slot": "demand", "purchase": Purchase.ON_DEMAND, "zone": "us-east-2a"},
        ],
        "network_zones": ["us-east-2c", "us-east-2a"],
        "kubernetes_version": "1.36",
        "addon_versions": dict(kubernetes_minors()["1.36"].addon_versions),
        "endpoint_cidrs": ["203.0.113.0/24"],
        "volume_size_gib": 650,
        "volume_throughput_mib_per_s": 1000,
        "context_tokens": 262_144,
        "max_sequences": 64,
        "api_key": pulumi.Output.secret("k" * 32),
        "cost_tag": "dormouse.dev/environment=test",
        "monthly_budget_usd": 20000.0,
        "expires_at": "2027-01-31T18:00:00+01:00",
        "notify_emails": ["team@example.com"],
        "tags": {"dormouse.dev/environment": "test"},
    }
    return base | changes  # type: ignore[return-value]  a TypedDict from a plain dictionary


@pytest.fixture(scope="module")
def made() -> Recording:
    return record(lambda: ModelServer("server", arguments()) and None)


def test_one_node_group_for_each_purchase_and_zone_asleep_from_birth(made: Recording) -> None:
    groups = {group.name: group for group in made.of("NodeGroup") if "nvidia.com/gpu" in str(group.inputs)}
    assert set(groups) == {"server-block", "server-spot", "server-demand"}
    for group in groups.values():
        assert group.inputs["scalingConfig"] == {"desiredSize": 0, "minSize": 0, "maxSize": 1}
        assert group.ignore_changes == ("scalingConfig.desiredSize",)
        assert group.inputs["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
        assert group.inputs["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
        assert group.inputs["nodeRepairConfig"] == {"enabled": True}
        assert group.inputs["amiType"] == "AL2023_x86_64_NVIDIA"
        assert group.inputs["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-h200"
        assert len(group.inputs["subnetIds"]) == 1
    assert groups["server-block"].inputs["subnetIds"] == ["server-network-private-us-east-2a-id"]
    assert groups["server-spot"].inputs["subnetIds"] == ["server-network-private-us-east-2c-id"]


def test_a_capacity_block_is_named_by_template_and_group(made: Recording) -> None:
    template = made.one("LaunchTemplate", "server-block").inputs
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": RESERVATION}
    }
    assert template["instanceType"] == "p5e.48xlarge"
    group = made.one("NodeGroup", "server-block").inputs
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group


@pytest.mark.parametrize(("name", "capacity"), [("spot", "SPOT"), ("demand", "ON_DEMAND")])
def test_for_spot_the_group_says_it_and_the_template_does_not(made: Recording, name: str, capacity: str) -> None:
    group = made.one("NodeGroup", f"server-{name}").inputs
    assert group["capacityType"] == capacity
    assert group["instanceTypes"] == ["p5e.48xlarge"]
    template = made.one("LaunchTemplate", f"server-{name}").inputs
    assert "instanceMarketOptions" not in template
    assert "capacityReservationSpecification" not in template


def test_every_machine_speaks_imdsv2_has_an_encrypted_disk_and_no_public_address(made: Recording) -> None:
    for template in made.of("LaunchTemplate"):
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert template.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
        for mapping in template.inputs["blockDeviceMappings"]:
            assert mapping["ebs"]["encrypted"] == "true"
        assert "networkInterfaces" not in template.inputs
    assert {subnet.inputs["mapPublicIpOnLaunch"] for subnet in made.of("Subnet")} == {False}


def test_instance_store_becomes_one_array(made: Recording) -> None:
    text = base64.b64decode(made.one("LaunchTemplate", "server-spot").inputs["userData"]).decode()
    assert 'Content-Type: multipart/mixed; boundary="dormouse-node-config"' in text
    assert "Content-Type: application/node.eks.aws" in text
    assert "strategy: RAID0" in text


def test_a_weight_volume_in_each_zone_protected_kept_encrypted_and_tagged_for_the_driver(made: Recording) -> None:
    volumes = made.of("Volume")
    assert {volume.inputs["availabilityZone"] for volume in volumes} == {"us-east-2a", "us-east-2c"}
    for volume in volumes:
        assert volume.protect
        assert volume.retain_on_delete
        assert volume.inputs["encrypted"] is True
        assert volume.inputs["type"] == "gp3"
        assert (volume.inputs["size"], volume.inputs["throughput"], volume.inputs["iops"]) == (650, 1000, 4000)
        assert volume.inputs["tags"]["ebs.csi.aws.com/cluster"] == "true"
        assert volume.inputs["tags"]["dormouse.dev/model"] == "kimi-k2.5"
    inside = made.one("PersistentVolume", "server-weights-us-east-2a-volume").inputs["spec"]
    assert inside["csi"]["volumeHandle"] == "server-weights-us-east-2a-id"
    (term,) = inside["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["us-east-2a"]
    claim = made.one("PersistentVolumeClaim", "server-weights-us-east-2a-claim").inputs["spec"]
    assert (claim["storageClassName"], claim["volumeName"]) == ("", "server-weights-us-east-2a")


def test_a_deployment_for_each_zone_whose_replicas_are_not_pulumi_s(made: Recording) -> None:
    deployments = made.of("Deployment")
    assert {deployment.name for deployment in deployments} == {"server-vllm-us-east-2a", "server-vllm-us-east-2c"}
    for deployment in deployments:
        assert deployment.ignore_changes == ("spec.replicas",)
        claim = deployment.inputs["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        assert claim == f"server-weights-{deployment.name.removeprefix('server-vllm-')}"
        assert {"server-vllm-policy", "server-vllm-api-key"} <= set(deployment.dependencies)


def test_pulumi_waits_for_a_rollout_as_long_as_one_takes(made: Recording) -> None:
    for deployment in made.of("Deployment"):
        pod = deployment.inputs["spec"]["template"]["spec"]
        probe = pod["containers"][0]["startupProbe"]
        start_s = probe["failureThreshold"] * probe["periodSeconds"]
        drain_s = pod["terminationGracePeriodSeconds"]
        assert int(deployment.timeouts["update"].rstrip("s")) > start_s + drain_s
        assert int(deployment.timeouts["create"].rstrip("s")) > start_s
        assert int(deployment.timeouts["delete"].rstrip("s")) > drain_s


def test_the_key_is_a_secret_to_pulumi(made: Recording) -> None:
    secret = made.one("Secret", "server-vllm-api-key")
    assert "stringData" in secret.secret_inputs or "api-key" in str(secret.secret_inputs)


def test_the_policy_names_the_control_plane_s_own_subnets(made: Recording) -> None:
    policy = made.one("NetworkPolicy", "server-vllm-policy").inputs["spec"]
    engine = next(rule for rule in policy["ingress"] if rule["ports"][0]["port"] == 8000)
    blocks = {peer["ipBlock"]["cidr"] for peer in engine["from"] if "ipBlock" in peer}
    control = {s.inputs["cidrBlock"] for s in made.of("Subnet") if "control-plane" in s.name}
    assert blocks == control
    cluster = next(c for c in made.of("Cluster") if c.type == "aws:eks/cluster:Cluster").inputs
    assert cluster["vpcConfig"]["subnetIds"] == [
        "server-network-control-plane-us-east-2a-id",
        "server-network-control-plane-us-east-2c-id",
    ]


def test_the_cluster_is_in_standard_support_pinned_encrypted_and_closed_but_for_given_addresses(
    made: Recording,
) -> None:
    cluster = next(c for c in made.of("Cluster") if c.type == "aws:eks/cluster:Cluster").inputs
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}
    assert cluster["version"] == "1.36"
    assert cluster["encryptionConfig"]["resources"] == ["secrets"]
    assert cluster["accessConfig"]["authenticationMode"] == "API"
    assert cluster["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    private = record(lambda: ModelServer("server", arguments(endpoint_cidrs=[])) and None)
    cluster = next(c for c in private.of("Cluster") if c.type == "aws:eks/cluster:Cluster").inputs
    assert cluster["vpcConfig"]["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in cluster["vpcConfig"]


def test_every_addon_is_pinned_and_the_two_that_need_aws_get_it_by_pod_identity(made: Recording) -> None:
    addons = {addon.inputs["addonName"]: addon.inputs for addon in made.of("Addon")}
    assert {name: addon["addonVersion"] for name, addon in addons.items()} == kubernetes_minors()["1.36"].addon_versions
    identities = {name for name, addon in addons.items() if addon.get("podIdentityAssociations")}
    assert identities == {"vpc-cni", "aws-ebs-csi-driver"}
    assert json.loads(addons["vpc-cni"]["configurationValues"]) == {"enableNetworkPolicy": "true"}


def test_least_privilege(made: Recording) -> None:
    attached = {a.name: a.inputs["policyArn"].rsplit("/", 1)[1] for a in made.of("RolePolicyAttachment")}
    assert set(attached.values()) == {
        "AmazonEKSClusterPolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEBSCSIDriverPolicyV2",
        "AmazonEKSWorkerNodeMinimalPolicy",
        "AmazonEC2ContainerRegistryPullOnly",
    }
    (expiry,) = made.of("RolePolicy")
    (statement,) = json.loads(expiry.inputs["policy"])["Statement"]
    assert statement["Action"] == ["eks:UpdateNodegroupConfig"]
    assert statement["Resource"] == [f"arn:aws:mock:::server-{slot}" for slot in ("block", "spot", "demand")]


def test_expiry_sets_every_gpu_group_to_zero_in_utc_with_pascal_case(made: Recording) -> None:
    schedules = made.of("Schedule")
    assert len(schedules) == 3
    for schedule in schedules:
        assert schedule.inputs["scheduleExpression"] == "at(2027-01-31T17:00:00)"
        assert schedule.inputs["scheduleExpressionTimezone"] == "UTC"
        assert schedule.inputs["target"]["arn"] == "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
        request = json.loads(schedule.inputs["target"]["input"])
        assert request["ClusterName"] == "server"
        assert request["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0}
    names = {json.loads(schedule.inputs["target"]["input"])["NodegroupName"] for schedule in schedules}
    assert names == {"server-block-0000000", "server-spot-0000000", "server-demand-0000000"}


def test_the_budget_warns_in_steps_and_ahead(made: Recording) -> None:
    budget = made.one("Budget").inputs
    assert (budget["limitAmount"], budget["timeUnit"]) == ("20000.00", "MONTHLY")
    assert budget["costFilters"] == [{"name": "TagKeyValue", "values": ["user:dormouse.dev/environment$test"]}]
    steps = {(one["notificationType"], one["threshold"]) for one in budget["notifications"]}
    assert steps == {("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)}


def test_no_budget_and_no_expiry_unless_asked(made: Recording) -> None:
    bare = arguments()
    for key in ("monthly_budget_usd", "expires_at"):
        del bare[key]  # type: ignore[misc]
    without = record(lambda: ModelServer("server", bare) and None)
    assert without.of("Budget") == []
    assert without.of("Schedule") == []


def test_everything_taggable_is_tagged(made: Recording) -> None:
    untaggable = {
        "Route", "RouteTableAssociation", "RolePolicyAttachment", "RolePolicy", "TopicPolicy", "TopicSubscription",
        "AccessPolicyAssociation", "Schedule", "EventTarget",
    }  # fmt: skip
    for resource in made.registrations:
        if resource.type.startswith("aws:") and resource.type.split(":")[-1] not in untaggable:
            assert resource.inputs.get("tags", {}).get("dormouse.dev/environment") == "test", resource.name


def test_two_servers_in_one_program_do_not_collide() -> None:
    def both() -> None:
        ModelServer("first", arguments())
        ModelServer("second", arguments(network_cidr="10.41.0.0/16"))

    made = record(both)
    urns = [(resource.type, resource.name) for resource in made.registrations]
    assert len(urns) == len(set(urns))


def test_outputs_that_are_registered_are_the_ones_that_are_annotated(made: Recording) -> None:
    from components import Cluster, CostPolicy, GpuNodeGroup, Network, VllmService, WeightVolume

    for component in (Cluster, CostPolicy, GpuNodeGroup, ModelServer, Network, VllmService, WeightVolume):
        annotated = {_camel(name) for name in component.__annotations__}
        assert made.component_outputs[f"dormouse:index:{component.__name__}"] == annotated


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "kimi-k9"}, "model: got 'kimi-k9'; accepted: deepseek-r1, "),
        ({"model": "qwen3-32b"}, "Qwen3-32B cannot run on p5e.48xlarge (8 × H200): a context of 262,144"),
        ({"network_zones": ["us-east-2a"]}, "network_zones: got 1 entries; accepted: at least 2"),
        ({"candidates": []}, "candidates: got none; accepted: at least one place"),
        ({"instance_type": "p5.48xlarge"}, "does not fit on p5.48xlarge"),
        (
            {"volume_throughput_mib_per_s": 2500},
            "throughput_mib_per_s: got 2500; accepted: a whole number from 125 to 2000",
        ),
        ({"volume_iops": 3000}, "iops: got 3000 with 1000 MiB/s; accepted: 4000 or more"),
        ({"context_tokens": 1.5}, "context_tokens: got 1.5; accepted: a whole number"),
        ({"exposure": "public"}, "exposure: got public; accepted: only with allowed_cidrs and certificate_arn"),
        ({"network_cidr": "8.8.0.0/16"}, "cidr: got 8.8.0.0/16; accepted: a private IPv4 block"),
        ({"addon_versions": {}}, "addon_versions: got no version of vpc-cni"),
        ({"expires_at": "tomorrow"}, "expires_at: got tomorrow; accepted: an ISO time with its offset"),
    ],
)
def test_wrong_arguments_are_refused_in_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=".") as refused:
        record(lambda: ModelServer("server", arguments(**changes)) and None)
    assert said in str(refused.value)


def test_a_block_without_a_reservation_and_a_reservation_without_a_block_are_refused() -> None:
    for candidate in (
        {"slot": "x", "purchase": "capacity-block", "zone": "us-east-2a"},
        {"slot": "x", "purchase": "spot", "zone": "us-east-2a", "reservation_id": RESERVATION},
    ):
        with pytest.raises(Exception, match="reservation_id: got"):
            record(lambda given=candidate: ModelServer("server", arguments(candidates=[given])) and None)


def test_numbers_that_come_as_floats_from_a_host_are_whole_numbers_again() -> None:
    floats = arguments(volume_size_gib=650.0, volume_throughput_mib_per_s=1000.0, context_tokens=262144.0)
    made = record(lambda: ModelServer("server", floats) and None)
    assert made.of("Volume")[0].inputs["size"] == 650
    pod = made.of("Deployment")[0].inputs["spec"]["template"]["spec"]
    assert "--max-model-len=262144" in pod["containers"][0]["args"]


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def test_no_tag_that_may_change_stands_on_machines(made: Recording) -> None:
    """Another launch template version replaces running machines, and one of these may not be had again."""
    other = record(
        lambda: ModelServer("server", arguments(tags={"dormouse.dev/environment": "test", "owner": "b"})) and None
    )
    for kind in ("server-block", "server-spot", "server-demand", "server-system"):
        before, after = (run.one("LaunchTemplate", kind).inputs for run in (made, other))
        assert before["tags"] != after["tags"]
        assert {k: v for k, v in before.items() if k != "tags"} == {k: v for k, v in after.items() if k != "tags"}
        for specification in before["tagSpecifications"]:
            assert specification["tags"]["dormouse.dev/environment"] == "test"

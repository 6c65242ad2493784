"""The table of AWS resource types, over HTTP against the simulated AWS."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.sandbox.aws_resources import FUNCTIONS, RESOURCES, AwsClients, AwsResourceError, call_function, resource_type
from infra.sandbox.aws_resources.properties import UNKNOWN
from tests.sandbox.aws_account import REGION, TRUST, Made, Surroundings

POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
)
SCALE_DOWN = json.dumps({"ClusterName": "c", "NodegroupName": "n", "ScalingConfig": {"MinSize": 0, "DesiredSize": 0}})


def topic(s: Surroundings) -> Made:
    return Made(s.clients, "aws:sns/topic:Topic")


def group(s: Surroundings) -> Made:
    return Made(s.clients, "aws:ec2/securityGroup:SecurityGroup", vpcId=s.vpc.id)


def table(s: Surroundings) -> Made:
    return Made(s.clients, "aws:ec2/routeTable:RouteTable", vpcId=s.vpc.id)


def bucket(s: Surroundings) -> str:
    return Made(s.clients, "aws:s3/bucket:Bucket", tags={"owner": "team"}).id


def abandoned(days: int) -> dict[str, Any]:
    upload = {"daysAfterInitiation": days}
    return {"id": "a", "status": "Enabled", "filter": {"prefix": ""}, "abortIncompleteMultipartUpload": upload}


def bucket_policy(name: str) -> dict[str, Any]:
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{name}"}
    return {"bucket": name, "policy": json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)}


# For each type: inputs beside tags, and a change that must be made in place ({} where nothing can).
EVERY_TYPE: dict[str, tuple[Callable[[Surroundings], dict[str, Any]], dict[str, Any]]] = {
    "aws:ec2/vpc:Vpc": (lambda s: {"cidrBlock": "10.9.0.0/16"}, {"enableDnsHostnames": True}),
    "aws:ec2/subnet:Subnet": (
        lambda s: {"vpcId": s.vpc.id, "cidrBlock": "10.0.40.0/24", "availabilityZoneId": "use2-az2"},
        {"mapPublicIpOnLaunch": True},
    ),
    "aws:ec2/internetGateway:InternetGateway": (lambda s: {"vpcId": s.vpc.id}, {}),
    "aws:ec2/eip:Eip": (lambda s: {"domain": "vpc"}, {}),
    "aws:ec2/natGateway:NatGateway": (
        lambda s: {"subnetId": s.subnets[0].id, "allocationId": Made(s.clients, "aws:ec2/eip:Eip").id},
        {},
    ),
    "aws:ec2/routeTable:RouteTable": (lambda s: {"vpcId": s.vpc.id}, {}),
    "aws:ec2/route:Route": (
        lambda s: {
            "routeTableId": table(s).id,
            "destinationCidrBlock": "0.0.0.0/0",
            "natGatewayId": Made(s.clients, "aws:ec2/natGateway:NatGateway", subnetId=s.subnets[0].id).id,
        },
        {},
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": (
        lambda s: {"routeTableId": table(s).id, "subnetId": s.subnets[1].id},
        {},
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": (
        lambda s: {"vpcId": s.vpc.id, "serviceName": f"com.amazonaws.{REGION}.s3", "routeTableIds": [table(s).id]},
        {"routeTableIds": []},
    ),
    "aws:ec2/securityGroup:SecurityGroup": (
        lambda s: {
            "vpcId": s.vpc.id,
            "ingress": [{"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8"]}],
            "egress": [{"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}],
        },
        {"ingress": [{"protocol": "tcp", "fromPort": 80, "toPort": 80, "self": True}]},
    ),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": (lambda s: {"vpcId": s.vpc.id}, {}),
    "aws:cloudwatch/eventRule:EventRule": (
        lambda s: {"eventPattern": '{"source": ["aws.ec2"]}', "description": "before"},
        {"description": "after", "eventPattern": '{"source": ["aws.autoscaling"]}'},
    ),
    "aws:cloudwatch/eventTarget:EventTarget": (
        lambda s: {
            "rule": Made(s.clients, "aws:cloudwatch/eventRule:EventRule", eventPattern='{"source": ["aws.ec2"]}').id,
            "targetId": "topic",
            "arn": topic(s).id,
        },
        {},
    ),
    "aws:ec2/placementGroup:PlacementGroup": (lambda s: {"strategy": "cluster"}, {}),
    "aws:ec2/launchTemplate:LaunchTemplate": (
        lambda s: {
            "instanceType": "p5e.48xlarge",
            "instanceMarketOptions": {"marketType": "capacity-block"},
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2},
            "blockDeviceMappings": [
                {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "volumeType": "gp3", "encrypted": "true"}}
            ],
            "networkInterfaces": [
                {
                    "deviceIndex": min(card, 1),
                    "networkCardIndex": card,
                    "interfaceType": "efa-only" if card else "efa",
                    "deleteOnTermination": "true",
                    "securityGroups": [s.cluster.outputs["vpcConfig"]["clusterSecurityGroupId"]],
                }
                for card in range(16)
            ],
            "tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "gpu"}}],
            "updateDefaultVersion": True,
        },
        {"instanceType": "p5en.48xlarge"},
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (
        lambda s: {
            "securityGroupId": group(s).id,
            "ipProtocol": "tcp",
            "fromPort": 443,
            "toPort": 443,
            "cidrIpv4": "10.0.0.0/8",
        },
        {"fromPort": 8443, "toPort": 8443},
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": (
        lambda s: {"securityGroupId": group(s).id, "ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0"},
        {},
    ),
    "aws:ebs/volume:Volume": (
        lambda s: {
            "availabilityZone": f"{REGION}a",
            "size": 800,
            "type": "gp3",
            "iops": 8000,
            "throughput": 1000,
            "encrypted": True,
        },
        {"size": 900, "throughput": 2000},
    ),
    "aws:iam/role:Role": (lambda s: {"assumeRolePolicy": TRUST}, {"description": "changed"}),
    "aws:iam/rolePolicy:RolePolicy": (
        lambda s: {"role": s.role.id, "policy": POLICY},
        {"policy": POLICY.replace("GetObject", "PutObject")},
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": (
        lambda s: {"role": s.role.id, "policyArn": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"},
        {},
    ),
    "aws:iam/policy:Policy": (lambda s: {"policy": POLICY}, {"policy": POLICY.replace("GetObject", "PutObject")}),
    "aws:kms/key:Key": (
        lambda s: {"enableKeyRotation": True, "deletionWindowInDays": 7},
        {"description": "changed", "enableKeyRotation": False},
    ),
    "aws:kms/alias:Alias": (lambda s: {"targetKeyId": Made(s.clients, "aws:kms/key:Key").outputs["arn"]}, {}),
    "aws:eks/cluster:Cluster": (
        lambda s: {
            "roleArn": s.role_arn,
            "version": "1.35",
            "vpcConfig": {"subnetIds": [subnet.id for subnet in reversed(s.subnets)]},
            "enabledClusterLogTypes": ["audit"],
            "encryptionConfig": {
                "provider": {"keyArn": Made(s.clients, "aws:kms/key:Key").outputs["arn"]},
                "resources": ["secrets"],
            },
        },
        {"enabledClusterLogTypes": ["audit", "api"], "version": "1.36", "deletionProtection": False},
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        lambda s: {
            "clusterName": s.cluster.id,
            "nodeRoleArn": s.role_arn,
            "subnetIds": [s.subnets[0].id],
            "instanceTypes": ["p5en.48xlarge"],
            "amiType": "AL2023_x86_64_NVIDIA",
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
            "labels": {"dormouse.dev/slot": "one"},
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
            "updateConfig": {"maxUnavailable": 1},
        },
        {
            "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 0},
            "labels": {"dormouse.dev/slot": "two"},
            "taints": [{"key": "other", "effect": "NO_EXECUTE"}],
        },
    ),
    "aws:eks/addon:Addon": (
        lambda s: {
            "clusterName": s.cluster.id,
            "addonName": "coredns",
            "configurationValues": '{"replicaCount": 1}',
            "resolveConflictsOnCreate": "OVERWRITE",
        },
        {"configurationValues": '{"replicaCount": 2}'},
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": (
        lambda s: {"clusterName": s.cluster.id, "namespace": "n", "serviceAccount": "a", "roleArn": s.role_arn},
        {"roleArn": "arn:aws:iam::123456789012:role/other"},
    ),
    "aws:eks/accessEntry:AccessEntry": (
        lambda s: {"clusterName": s.cluster.id, "principalArn": new_role(s)},
        {"kubernetesGroups": ["readers"]},
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": (
        lambda s: {
            "clusterName": s.cluster.id,
            "principalArn": entry_of(s),
            "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            "accessScope": {"type": "cluster"},
        },
        {},
    ),
    "aws:cloudwatch/logGroup:LogGroup": (lambda s: {"retentionInDays": 7}, {"retentionInDays": 30}),
    "aws:cloudwatch/metricAlarm:MetricAlarm": (
        lambda s: {
            "comparisonOperator": "LessThanThreshold",
            "evaluationPeriods": 2,
            "metricName": "requests",
            "namespace": "vllm",
            "dimensions": {"cluster": "dev"},
            "period": 60,
            "statistic": "Sum",
            "threshold": 0.5,
            "alarmActions": [topic(s).id],
        },
        {"threshold": 2, "treatMissingData": "breaching"},
    ),
    "aws:sns/topic:Topic": (lambda s: {"displayName": "alerts"}, {"displayName": "changed"}),
    "aws:sns/topicPolicy:TopicPolicy": (lambda s: topic_policy(s, "SNS:Publish"), {}),
    "aws:sns/topicSubscription:TopicSubscription": (
        lambda s: {"topic": topic(s).id, "protocol": "email", "endpoint": "ops@example.com"},
        {},
    ),
    "aws:budgets/budget:Budget": (
        lambda s: {
            "budgetType": "COST",
            "timeUnit": "MONTHLY",
            "limitAmount": "20000",
            "limitUnit": "USD",
            "notifications": [
                {
                    "comparisonOperator": "GREATER_THAN",
                    "notificationType": "ACTUAL",
                    "threshold": 80,
                    "thresholdType": "PERCENTAGE",
                    "subscriberSnsTopicArns": [topic(s).id],
                }
            ],
        },
        {"limitAmount": "25000"},
    ),
    "aws:scheduler/schedule:Schedule": (
        lambda s: {
            "scheduleExpression": "cron(0 19 ? * MON-FRI *)",
            "scheduleExpressionTimezone": "America/New_York",
            "flexibleTimeWindow": {"mode": "OFF"},
            "target": {
                "arn": "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig",
                "roleArn": s.role_arn,
                "input": SCALE_DOWN,
                "retryPolicy": {"maximumRetryAttempts": 3},
            },
        },
        {"state": "DISABLED"},
    ),
    "aws:secretsmanager/secret:Secret": (lambda s: {"description": "key"}, {"description": "changed"}),
    "aws:secretsmanager/secretVersion:SecretVersion": (
        lambda s: {"secretId": Made(s.clients, "aws:secretsmanager/secret:Secret").id, "secretString": "hush"},
        {},
    ),
    "aws:ecr/pullThroughCacheRule:PullThroughCacheRule": (
        lambda s: {
            "ecrRepositoryPrefix": "dormouse-hub",
            "upstreamRegistryUrl": "registry-1.docker.io",
            "credentialArn": "arn:aws:secretsmanager:us-east-2:123456789012:secret:ecr-pullthroughcache/hub-Ab1",
        },
        {},
    ),
    "aws:s3/bucket:Bucket": (lambda s: {"bucket": "made-by-hand"}, {"forceDestroy": True}),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": (
        lambda s: {"bucket": bucket(s), "blockPublicAcls": True, "blockPublicPolicy": True},
        {"restrictPublicBuckets": True},
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        lambda s: {
            "bucket": bucket(s),
            "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}],
        },
        {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}, "bucketKeyEnabled": True}]},
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        lambda s: {"bucket": bucket(s), "rules": [abandoned(7)]},
        {"rules": [abandoned(3)]},
    ),
    "aws:s3/bucketPolicy:BucketPolicy": (lambda s: bucket_policy(bucket(s)), {}),
}
# AWS never deletes these alone: they go with the VPC, the topic or the secret.
LET_GO = {
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    "aws:sns/topicPolicy:TopicPolicy",
    "aws:secretsmanager/secretVersion:SecretVersion",
}


def new_role(s: Surroundings) -> str:
    return str(Made(s.clients, "aws:iam/role:Role", assumeRolePolicy=TRUST).outputs["arn"])


def entry_of(s: Surroundings) -> str:
    principal = new_role(s)
    Made(s.clients, "aws:eks/accessEntry:AccessEntry", clusterName=s.cluster.id, principalArn=principal)
    return principal


def topic_policy(s: Surroundings, action: str) -> dict[str, Any]:
    arn = topic(s).id
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": action,
        "Resource": arn,
    }
    return {"arn": arn, "policy": json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)}


def test_every_covered_type_is_lived_through_below() -> None:
    assert set(EVERY_TYPE) == set(RESOURCES)


@pytest.mark.parametrize("token", EVERY_TYPE)
def test_a_resource_lives_without_drift_from_creation_to_deletion(around: Surroundings, token: str) -> None:
    inputs, change = EVERY_TYPE[token]
    tags = {"tags": {"owner": "team"}} if RESOURCES[token].taggable else {}
    made = Made(around.clients, token, **inputs(around), **tags)
    assert {key: made.outputs[key] for key in tags} == tags
    assert made.drift() == {}

    if change:
        if "roleArn" in change:
            change = {"roleArn": new_role(around)}
        outputs = made.update(**change)
        assert {key: outputs[key] for key in change if isinstance(change[key], (str, int, dict))} == {
            key: value for key, value in change.items() if isinstance(value, (str, int, dict))
        }
        assert made.drift() == {}
    if tags:
        assert made.update(tags={"cost-centre": "42"})["tagsAll"] == {"cost-centre": "42"}
        assert made.drift() == {}

    made.delete()
    if token not in LET_GO:
        assert made.read() is None
    made.delete()


def test_a_made_up_name_is_kept_and_a_seed_repeats_it() -> None:
    kind = RESOURCES["aws:iam/role:Role"]
    first = kind.check("node", {"assumeRolePolicy": TRUST}, seed=b"one").inputs
    assert first["name"].startswith("node-")
    assert len(first["name"]) == len("node-") + 7
    assert kind.check("node", {"assumeRolePolicy": TRUST}, seed=b"one").inputs["name"] == first["name"]
    assert kind.check("node", {"assumeRolePolicy": TRUST}, seed=b"two").inputs["name"] != first["name"]
    assert kind.check("node", {"assumeRolePolicy": TRUST}, first, seed=b"two").inputs["name"] == first["name"]
    assert RESOURCES["aws:kms/alias:Alias"].check("k", {"targetKeyId": "x"}).inputs["name"].startswith("alias/k-")


def test_misspelt_and_missing_arguments_are_all_named() -> None:
    failures = (
        RESOURCES["aws:eks/nodeGroup:NodeGroup"]
        .check("gpu", {"clusterName": "c", "scalingConfig": {"minSiz": 0}, "subnetIds": [], "warmPoolConfig": {}})
        .failures
    )
    assert [path for path, _ in failures] == ["scalingConfig.minSiz", "warmPoolConfig", "nodeRoleArn"]
    assert failures[0][1].endswith("did you mean minSize?")


def test_a_type_or_function_that_is_not_covered_is_refused_with_what_is(aws: AwsClients) -> None:
    with pytest.raises(AwsResourceError, match=r"no resource type aws:sqs/queue:Queue; covered: .*aws:ec2/vpc:Vpc"):
        resource_type("aws:sqs/queue:Queue")
    with pytest.raises(AwsResourceError, match=r"no function aws:iam/getRole:getRole; covered: .*getCallerIdentity"):
        call_function(aws, "aws:iam/getRole:getRole", {})


def test_an_endpoint_elsewhere_is_refused() -> None:
    with pytest.raises(AwsResourceError, match="must listen on this machine"):
        AwsClients(REGION, "https://eks.us-east-2.amazonaws.com")


@pytest.mark.parametrize(
    ("token", "path", "old", "new"),
    [
        ("aws:ebs/volume:Volume", "availabilityZone", {"availabilityZone": "a"}, {"availabilityZone": "b"}),
        ("aws:ebs/volume:Volume", "snapshotId", {"size": 1}, {"size": 1, "snapshotId": "snap-1"}),
        ("aws:eks/nodeGroup:NodeGroup", "subnetIds[0]", {"subnetIds": ["a"]}, {"subnetIds": ["b"]}),
        (
            "aws:eks/nodeGroup:NodeGroup",
            "instanceTypes[0]",
            {"instanceTypes": ["a", "b"]},
            {"instanceTypes": ["b", "a"]},
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            "launchTemplate.id",
            {"launchTemplate": {"id": "a"}},
            {"launchTemplate": {"id": "b"}},
        ),
        ("aws:eks/cluster:Cluster", "roleArn", {"roleArn": "a"}, {"roleArn": UNKNOWN}),
        ("aws:ec2/vpc:Vpc", "cidrBlock", {"cidrBlock": "10.0.0.0/16"}, {"cidrBlock": "10.1.0.0/16"}),
        ("aws:iam/role:Role", "name", {"name": "a"}, {"name": "b"}),
    ],
)
def test_what_cannot_change_in_place_is_replaced(
    token: str, path: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert path in RESOURCES[token].diff(old, new).replaces


@pytest.mark.parametrize(
    ("token", "old", "new"),
    [
        ("aws:ebs/volume:Volume", {"size": 1, "throughput": 125}, {"size": 2, "throughput": 250}),
        ("aws:eks/nodeGroup:NodeGroup", {"launchTemplate": {"version": "1"}}, {"launchTemplate": {"version": UNKNOWN}}),
        ("aws:eks/cluster:Cluster", {"vpcConfig": {"subnetIds": ["a"]}}, {"vpcConfig": {"subnetIds": ["b"]}}),
        ("aws:eks/cluster:Cluster", {}, {"encryptionConfig": {"resources": ["secrets"]}}),
    ],
)
def test_what_can_change_in_place_is_not_replaced(token: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    found = RESOURCES[token].diff(old, new)
    assert found.changes
    assert found.replaces == frozenset()


def test_order_of_sets_spacing_of_json_and_ignored_paths_are_no_change() -> None:
    kind = RESOURCES["aws:eks/nodeGroup:NodeGroup"]
    assert kind.diff({"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "a"]}).changes == {}
    sizes = [{"scalingConfig": {"desiredSize": size, "maxSize": 1}} for size in (1, 0)]
    assert kind.diff(*sizes).changes == {"scalingConfig.desiredSize": "update"}
    assert kind.diff(*sizes, ignored=["scalingConfig.desiredSize"]).changes == {}
    spaced = {"policy": json.dumps(json.loads(POLICY), indent=2)}
    assert RESOURCES["aws:iam/policy:Policy"].diff({"policy": POLICY}, spaced).changes == {}


def test_a_fixed_name_is_deleted_before_its_replacement_and_a_made_up_one_after() -> None:
    kind = RESOURCES["aws:eks/nodeGroup:NodeGroup"]
    old, new = {"nodeGroupName": "n", "subnetIds": ["a"]}, {"nodeGroupName": "n", "subnetIds": ["b"]}
    assert kind.diff(old, new).delete_before_replace
    assert not kind.diff(old, {**new, "__defaults": ["nodeGroupName"]}).delete_before_replace


def test_changes_by_hand_are_drift(around: Surroundings) -> None:
    ec2, eks = around.clients.client("ec2"), around.clients.client("eks")
    volume = Made(
        around.clients, "aws:ebs/volume:Volume", availabilityZone=f"{REGION}a", size=10, type="gp3", throughput=125
    )
    ec2.modify_volume(VolumeId=volume.id, Throughput=500)
    ec2.create_tags(Resources=[volume.id], Tags=[{"Key": "hand", "Value": "made"}])
    assert volume.drift() == {"throughput": "update", "tags": "add", "tagsAll": "add"}

    nodes = around.node_group()
    name = nodes.outputs["nodeGroupName"]
    eks.update_nodegroup_config(
        clusterName=around.cluster.id, nodegroupName=name, scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 1}
    )
    assert nodes.drift() == {"scalingConfig.desiredSize": "update"}

    rule = Made(
        around.clients,
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        securityGroupId=group(around).id,
        ipProtocol="-1",
        cidrIpv4="10.0.0.0/8",
    )
    ec2.revoke_security_group_ingress(GroupId=rule.inputs["securityGroupId"], SecurityGroupRuleIds=[rule.id])
    assert rule.read() is None


def test_a_new_launch_template_version_reaches_the_node_group_in_place(around: Surroundings) -> None:
    template = Made(
        around.clients, "aws:ec2/launchTemplate:LaunchTemplate", instanceType="p5en.48xlarge", updateDefaultVersion=True
    )
    use = {"id": template.id, "version": str(template.outputs["latestVersion"])}
    nodes = around.node_group(launchTemplate=use, instanceTypes=None)
    template.update(metadataOptions={"httpTokens": "required"})
    assert (template.outputs["latestVersion"], template.outputs["defaultVersion"]) == (2, 2)
    assert nodes.update(launchTemplate={**use, "version": "2"})["launchTemplate"]["version"] == "2"


def test_aws_refusals_keep_their_text(around: Surroundings) -> None:
    with pytest.raises(AwsResourceError) as refused:
        around.node_group(subnetIds=["subnet-0deadbeef"], nodeGroupName="gpu")
    text = str(refused.value)
    assert text.startswith(
        f"creating EKS Node Group ({around.cluster.id}:gpu): operation error EKS: CreateNodegroup, "
        "https response error StatusCode: 400, RequestID: "
    )
    assert "InvalidParameterException: " in text
    assert "subnet-0deadbeef" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheduleExpression": "at(2020-01-01T00:00:00)"}, "the time is in the past"),
        ({"scheduleExpressionTimezone": "Mars/Olympus"}, "Invalid Schedule Expression Timezone Mars/Olympus"),
        ({"scheduleExpression": "cron(0 19 * * MON-FRI *)"}, "Invalid Schedule Expression"),
        ({"input": SCALE_DOWN.replace("ClusterName", "clusterName")}, "unknown field clusterName"),
        ({"input": SCALE_DOWN.replace("MinSize", "minSize")}, "unknown field ScalingConfig.minSize"),
        ({"input": "now"}, "must be a JSON object"),
    ],
)
def test_schedules_that_aws_refuses_are_refused(around: Surroundings, change: dict[str, str], words: str) -> None:
    inputs, _ = EVERY_TYPE["aws:scheduler/schedule:Schedule"]
    given = inputs(around)
    if "input" in change:
        given["target"] |= change
    else:
        given |= change
    with pytest.raises(AwsResourceError, match="CreateSchedule, ValidationException: ") as refused:
        Made(around.clients, "aws:scheduler/schedule:Schedule", **given)
    assert words in str(refused.value)


def test_deleting_what_something_depends_on_gives_up_with_awss_reason(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.sandbox.aws_resources.resource._DEPENDENTS_LIMIT_S", 0.1)
    with pytest.raises(AwsResourceError, match=r"deleting EC2 VPC .*DeleteVpc.*DependencyViolation"):
        around.vpc.delete()
    assert around.vpc.read() is not None


def test_an_import_shows_every_argument(around: Surroundings) -> None:
    volume = Made(around.clients, "aws:ebs/volume:Volume", availabilityZone=f"{REGION}b", size=7, type="gp3")
    outputs = volume.kind.read(around.clients, volume.id, {})
    assert outputs is not None
    inputs = volume.kind.inputs_from({}, outputs)
    assert (inputs["availabilityZone"], inputs["size"], inputs["type"]) == (f"{REGION}b", 7, "gp3")


def test_functions_answer_from_the_account(around: Surroundings) -> None:
    def call(token: str, **arguments: Any) -> dict[str, Any]:
        return call_function(around.clients, token, arguments)

    ec2 = around.clients.client("ec2")
    wanted_block = {"InstanceType": "p5en.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24}
    offering = ec2.describe_capacity_block_offerings(**wanted_block)["CapacityBlockOfferings"][0]
    bought = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offering["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]
    answers = {
        "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": (
            {"id": bought["CapacityReservationId"]},
            "instanceType",
            "p5en.48xlarge",
        ),
        "aws:index/getCallerIdentity:getCallerIdentity": ({}, "accountId", "123456789012"),
        "aws:index/getPartition:getPartition": ({}, "partition", "aws"),
        "aws:index/getRegion:getRegion": ({}, "region", REGION),
        "aws:index/getAvailabilityZones:getAvailabilityZones": (
            {"state": "available"},
            "zoneIds",
            ["use2-az1", "use2-az2", "use2-az3"],
        ),
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": (
            {
                "locationType": "availability-zone",
                "filters": [{"name": "instance-type", "values": ["p5e.48xlarge"]}],
            },
            "instanceTypes",
            ["p5e.48xlarge"] * 3,
        ),
        "aws:ec2/getSubnet:getSubnet": ({"id": around.subnets[1].id}, "availabilityZone", f"{REGION}b"),
        "aws:ec2/getSubnets:getSubnets": (
            {"filters": [{"name": "subnet-id", "values": [around.subnets[0].id]}]},
            "ids",
            [around.subnets[0].id],
        ),
        "aws:ec2/getVpc:getVpc": ({"id": around.vpc.id}, "cidrBlock", "10.0.0.0/16"),
        "aws:ssm/getParameter:getParameter": (
            {"name": "/aws/service/global-infrastructure/regions/us-east-2"},
            "value",
            "us-east-2",
        ),
    }
    assert set(answers) == set(FUNCTIONS)
    for token, (arguments, key, wanted) in answers.items():
        assert call(token, **arguments)[key] == wanted

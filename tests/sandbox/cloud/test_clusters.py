import pytest

from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import World


def test_a_cluster_takes_its_time_and_then_answers_with_its_address(world: World) -> None:
    made = world.cluster(wait=False)
    assert made["status"] == "CREATING"
    assert "endpoint" not in made
    world.wait(539)
    assert world.eks.describe_cluster(name="dev")["cluster"]["status"] == "CREATING"
    world.wait(1)
    cluster = world.eks.describe_cluster(name="dev")["cluster"]
    assert cluster["status"] == "ACTIVE"
    assert cluster["endpoint"].startswith("https://")
    assert cluster["endpoint"].endswith(".gr7.us-east-2.eks.amazonaws.com")


def test_describe_gives_back_everything_that_was_given(world: World) -> None:
    cluster = world.cluster(
        upgradePolicy={"supportType": "STANDARD"},
        kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
        encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-east-2:1:key/k"}}],
        logging={"clusterLogging": [{"types": ["api", "audit"], "enabled": True}]},
        deletionProtection=True,
        tags={"owner": "team"},
        bootstrapSelfManagedAddons=False,
    )
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert cluster["encryptionConfig"][0]["provider"]["keyArn"] == "arn:aws:kms:us-east-2:1:key/k"
    assert cluster["logging"]["clusterLogging"] == [
        {"types": ["api", "audit"], "enabled": True},
        {"types": ["authenticator", "controllerManager", "scheduler"], "enabled": False},
    ]
    assert cluster["deletionProtection"] is True
    assert cluster["tags"] == {"owner": "team"}
    assert cluster["accessConfig"] == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}
    network = cluster["resourcesVpcConfig"]
    assert network["vpcId"] == world.vpc_id
    groups = world.ec2.describe_security_groups(GroupIds=[network["clusterSecurityGroupId"]])["SecurityGroups"]
    assert groups[0]["GroupName"].startswith("eks-cluster-sg-dev-")


def test_wrong_references_are_refused_as_by_aws(world: World, refuses: Refuses) -> None:
    world.network()
    role = world.role("cluster", "eks.amazonaws.com")
    other = world.role("other", "ec2.amazonaws.com")
    subnet_ids = list(world.subnet_ids.values())
    create = world.eks.create_cluster
    two_zones = {"subnetIds": subnet_ids[:2]}
    invalid = "InvalidParameterException"
    bad = {"subnetIds": ["subnet-0", subnet_ids[0]]}
    assert "'subnet-0' does not exist" in refuses(invalid, create, name="a", roleArn=role, resourcesVpcConfig=bad)
    one_zone = {"subnetIds": subnet_ids[:1]}
    message = refuses(invalid, create, name="a", roleArn=role, resourcesVpcConfig=one_zone)
    assert message == "Subnets specified must be in at least two different AZs"
    message = refuses(invalid, create, name="a", roleArn=other, resourcesVpcConfig=two_zones)
    assert "trusted entity is not correct" in message
    message = refuses(invalid, create, name="a", roleArn=role, resourcesVpcConfig=two_zones, version="1.29")
    assert message == "unsupported Kubernetes version 1.29; supported: 1.34, 1.35, 1.36"
    policy = {"supportType": "NONE"}
    message = refuses(invalid, create, name="a", roleArn=role, resourcesVpcConfig=two_zones, upgradePolicy=policy)
    assert "'upgradePolicy.supportType'" in message
    create(name="a", roleArn=role, resourcesVpcConfig=two_zones)
    refuses("ResourceInUseException", create, name="a", roleArn=role, resourcesVpcConfig=two_zones)
    refuses("ResourceNotFoundException", world.eks.describe_cluster, name="b")


def test_endpoint_access_changes_and_the_subnets_stay(world: World, refuses: Refuses) -> None:
    before = world.cluster()["resourcesVpcConfig"]
    change = {"endpointPublicAccess": True, "publicAccessCidrs": ["192.0.2.0/24"]}
    update = world.eks.update_cluster_config(name="dev", resourcesVpcConfig=change)["update"]
    assert (update["type"], update["status"]) == ("EndpointAccessUpdate", "InProgress")
    message = refuses("ResourceInUseException", world.eks.update_cluster_config, name="dev", deletionProtection=True)
    assert "UPDATING" in message
    world.wait(60)
    found = world.eks.describe_update(name="dev", updateId=update["id"])["update"]
    assert found["status"] == "Successful"
    cluster = world.eks.describe_cluster(name="dev")["cluster"]
    assert cluster["status"] == "ACTIVE"
    assert cluster["resourcesVpcConfig"] == {**before, **change}
    assert world.eks.list_updates(name="dev")["updateIds"] == [update["id"]]
    refuses("InvalidParameterException", world.eks.update_cluster_config, name="dev", resourcesVpcConfig=change)


@pytest.mark.parametrize(("version", "accepted"), [("1.36", True), ("1.34", False), ("1.35", False)])
def test_versions_go_up_by_one(world: World, refuses: Refuses, version: str, accepted: bool) -> None:
    world.cluster()
    if not accepted:
        refuses("InvalidParameterException", world.eks.update_cluster_version, name="dev", version=version)
        return
    world.eks.update_cluster_version(name="dev", version=version)
    world.wait(600)
    cluster = world.eks.describe_cluster(name="dev")["cluster"]
    assert (cluster["status"], cluster["version"]) == ("ACTIVE", "1.36")


def test_a_cluster_goes_only_when_nothing_holds_it(world: World, refuses: Refuses) -> None:
    group_id = world.cluster(deletionProtection=True)["resourcesVpcConfig"]["clusterSecurityGroupId"]
    refuses("InvalidRequestException", world.eks.delete_cluster, name="dev")
    world.eks.update_cluster_config(name="dev", deletionProtection=False)
    world.wait(60)
    world.node_group()
    refuses("ResourceInUseException", world.eks.delete_cluster, name="dev")
    world.eks.delete_nodegroup(clusterName="dev", nodegroupName="gpu")
    world.wait(120)
    # The control plane's interfaces hold the subnets.
    subnet_id = world.subnet_ids["us-east-2a"]
    refuses("DependencyViolation", world.ec2.delete_subnet, SubnetId=subnet_id)
    refuses("DependencyViolation", world.ec2.delete_security_group, GroupId=group_id)
    assert world.eks.delete_cluster(name="dev")["cluster"]["status"] == "DELETING"
    world.wait(180)
    assert world.eks.list_clusters()["clusters"] == []
    refuses("InvalidGroup.NotFound", world.ec2.describe_security_groups, GroupIds=[group_id])
    for one in world.subnet_ids.values():
        world.ec2.delete_subnet(SubnetId=one)
    world.ec2.delete_vpc(VpcId=world.vpc_id)


def test_the_kubernetes_address_can_be_set_while_it_runs(world: World) -> None:
    world.cluster()
    world.server.admin.set_kubernetes("https://127.0.0.1:6443", "Q0E=")
    cluster = world.eks.describe_cluster(name="dev")["cluster"]
    assert cluster["endpoint"] == "https://127.0.0.1:6443"
    assert cluster["certificateAuthority"] == {"data": "Q0E="}


def test_tags_of_everything_can_be_changed(world: World) -> None:
    arn = world.cluster(tags={"a": "1"})["arn"]
    group_arn = world.node_group(tags={"b": "2"})["nodegroupArn"]
    for one in (arn, group_arn):
        world.eks.tag_resource(resourceArn=one, tags={"c": "3"})
    world.eks.untag_resource(resourceArn=group_arn, tagKeys=["b"])
    assert world.eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"a": "1", "c": "3"}
    assert world.describe()["tags"] == {"c": "3"}

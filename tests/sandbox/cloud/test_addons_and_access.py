import json

from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import World

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
_CREATOR = "arn:aws:iam::123456789012:user/moto"


def test_the_life_of_an_addon(world: World, refuses: Refuses) -> None:
    world.cluster()
    role = world.role("csi", "pods.eks.amazonaws.com")
    made = world.eks.create_addon(
        clusterName="dev",
        addonName="aws-ebs-csi-driver",
        addonVersion="v1.62.0-eksbuild.1",
        configurationValues=json.dumps({"controller": {"replicaCount": 1}}),
        podIdentityAssociations=[{"serviceAccount": "ebs-csi-controller-sa", "roleArn": role}],
        tags={"owner": "team"},
    )["addon"]
    assert made["status"] == "CREATING"
    [association] = world.eks.list_pod_identity_associations(clusterName="dev")["associations"]
    assert association["ownerArn"] == made["addonArn"]
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", "ebs-csi-controller-sa")
    owned = {"clusterName": "dev", "associationId": association["associationId"]}
    refuses("InvalidParameterException", world.eks.delete_pod_identity_association, **owned)
    world.wait(30)
    describe, update = world.eks.describe_addon, world.eks.update_addon
    addon = describe(clusterName="dev", addonName="aws-ebs-csi-driver")["addon"]
    assert addon["status"] == "ACTIVE"
    assert addon["addonVersion"] == "v1.62.0-eksbuild.1"
    assert addon["podIdentityAssociations"] == [association["associationArn"]]

    begun = update(clusterName="dev", addonName="aws-ebs-csi-driver", addonVersion="v1.63.0-eksbuild.1")["update"]
    assert begun["params"] == [{"type": "AddonVersion", "value": "v1.63.0-eksbuild.1"}]
    refuses("ResourceInUseException", update, clusterName="dev", addonName="aws-ebs-csi-driver")
    world.wait(30)
    found = world.eks.describe_update(name="dev", addonName="aws-ebs-csi-driver", updateId=begun["id"])["update"]
    assert found["status"] == "Successful"
    assert describe(clusterName="dev", addonName="aws-ebs-csi-driver")["addon"]["status"] == "ACTIVE"

    world.eks.delete_addon(clusterName="dev", addonName="aws-ebs-csi-driver")
    world.wait(10)
    refuses("ResourceNotFoundException", describe, clusterName="dev", addonName="aws-ebs-csi-driver")
    assert world.eks.list_pod_identity_associations(clusterName="dev")["associations"] == []


def test_wrong_addons_are_refused(world: World, refuses: Refuses) -> None:
    world.cluster()
    create = world.eks.create_addon
    refuses("InvalidParameterException", create, clusterName="dev", addonName="no-such-addon")
    refuses("InvalidParameterException", create, clusterName="dev", addonName="coredns", configurationValues="[1]")
    create(clusterName="dev", addonName="coredns")
    refuses("ResourceInUseException", create, clusterName="dev", addonName="coredns")
    refuses("ResourceNotFoundException", create, clusterName="no", addonName="coredns")
    assert world.eks.list_addons(clusterName="dev")["addons"] == ["coredns"]


def test_pod_identity_associations(world: World, refuses: Refuses) -> None:
    world.cluster()
    role = world.role("pods", "pods.eks.amazonaws.com")
    wrong = world.role("nodes", "ec2.amazonaws.com")
    create = world.eks.create_pod_identity_association
    where = {"clusterName": "dev", "namespace": "models", "serviceAccount": "vllm"}
    refuses("InvalidParameterException", create, **where, roleArn=wrong)
    made = create(**where, roleArn=role, tags={"a": "b"})["association"]
    refuses("ResourceInUseException", create, **where, roleArn=role)
    other = world.role("other", "pods.eks.amazonaws.com")
    one = {"clusterName": "dev", "associationId": made["associationId"]}
    world.eks.update_pod_identity_association(**one, roleArn=other)
    found = world.eks.describe_pod_identity_association(**one)["association"]
    assert (found["roleArn"], found["tags"]) == (other, {"a": "b"})
    listed = world.eks.list_pod_identity_associations(clusterName="dev", namespace="none")["associations"]
    assert listed == []
    world.eks.delete_pod_identity_association(**one)
    refuses("ResourceNotFoundException", world.eks.describe_pod_identity_association, **one)


def test_the_creator_and_the_nodes_have_entries(world: World) -> None:
    world.cluster()
    group = world.node_group()
    entries = world.eks.list_access_entries(clusterName="dev")["accessEntries"]
    assert sorted(entries) == sorted([_CREATOR, group["nodeRole"]])
    policies = world.eks.list_associated_access_policies(clusterName="dev", principalArn=_CREATOR)
    assert [one["policyArn"] for one in policies["associatedAccessPolicies"]] == [_ADMIN]
    node = world.eks.describe_access_entry(clusterName="dev", principalArn=group["nodeRole"])["accessEntry"]
    assert (node["type"], node["kubernetesGroups"]) == ("EC2_LINUX", ["system:nodes"])
    assert node["username"] == "system:node:{{EC2PrivateDNSName}}"


def test_access_entries_and_their_policies(world: World, refuses: Refuses) -> None:
    world.cluster()
    role = world.role("admin", "ec2.amazonaws.com")
    create = world.eks.create_access_entry
    unknown = "arn:aws:iam::123456789012:role/nobody"
    refuses("InvalidParameterException", create, clusterName="dev", principalArn=unknown)
    groups = ["system:masters"]
    message = refuses(
        "InvalidParameterException", create, clusterName="dev", principalArn=role, kubernetesGroups=groups
    )
    assert "must not begin with system:" in message
    made = create(clusterName="dev", principalArn=role, kubernetesGroups=["team"])["accessEntry"]
    assert made["username"] == "arn:aws:sts::123456789012:assumed-role/admin/{{SessionName}}"
    refuses("ResourceInUseException", create, clusterName="dev", principalArn=role)

    who = {"clusterName": "dev", "principalArn": role}
    associate = world.eks.associate_access_policy
    scope = {"type": "namespace", "namespaces": ["models"]}
    associate(**who, policyArn=_VIEW, accessScope=scope)
    message = refuses(
        "InvalidParameterException", associate, **who, policyArn=_VIEW + "x", accessScope={"type": "cluster"}
    )
    assert "policyArn" in message
    listed = world.eks.list_associated_access_policies(**who)["associatedAccessPolicies"]
    assert [(one["policyArn"], one["accessScope"]) for one in listed] == [(_VIEW, scope)]
    found = world.eks.list_access_entries(clusterName="dev", associatedPolicyArn=_VIEW)["accessEntries"]
    assert found == [role]
    world.eks.update_access_entry(**who, kubernetesGroups=["other"])
    assert world.eks.describe_access_entry(**who)["accessEntry"]["kubernetesGroups"] == ["other"]
    world.eks.disassociate_access_policy(**who, policyArn=_VIEW)
    assert world.eks.list_associated_access_policies(**who)["associatedAccessPolicies"] == []
    world.eks.delete_access_entry(**who)
    refuses("ResourceNotFoundException", world.eks.describe_access_entry, **who)


def test_clusters_on_the_config_map_take_no_entries(world: World, refuses: Refuses) -> None:
    world.cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
    role = world.role("admin", "ec2.amazonaws.com")
    message = refuses("InvalidRequestException", world.eks.create_access_entry, clusterName="dev", principalArn=role)
    assert "[API, API_AND_CONFIG_MAP]" in message

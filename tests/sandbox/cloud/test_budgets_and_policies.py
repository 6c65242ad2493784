from typing import Any

from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import World

_ACCOUNT = "123456789012"
_ARN = f"arn:aws:budgets::{_ACCOUNT}:budget/dormouse"


def _budget(amount: str) -> dict[str, Any]:
    limit = {"Amount": amount, "Unit": "USD"}
    return {"BudgetName": "dormouse", "BudgetLimit": limit, "TimeUnit": "MONTHLY", "BudgetType": "COST"}


def _notification(threshold: float) -> dict[str, Any]:
    return {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": threshold}


def test_a_budget_changes_with_its_notifications_and_tags(world: World, refuses: Refuses) -> None:
    budgets = world.client("budgets")
    subscriber = {"SubscriptionType": "SNS", "Address": f"arn:aws:sns:us-east-2:{_ACCOUNT}:stop"}
    budgets.create_budget(
        AccountId=_ACCOUNT,
        Budget=_budget("1000"),
        NotificationsWithSubscribers=[{"Notification": _notification(80), "Subscribers": [subscriber]}],
        ResourceTags=[{"Key": "owner", "Value": "team"}],
    )
    which = {"AccountId": _ACCOUNT, "BudgetName": "dormouse"}
    budgets.update_budget(AccountId=_ACCOUNT, NewBudget=_budget("2000"))
    assert budgets.describe_budget(**which)["Budget"]["BudgetLimit"] == {"Amount": "2000", "Unit": "USD"}
    shown = budgets.describe_notifications_for_budget(**which)["Notifications"]
    assert [one["Threshold"] for one in shown] == [80.0]
    subscribers = budgets.describe_subscribers_for_notification(**which, Notification=_notification(80))
    assert subscribers["Subscribers"] == [subscriber]
    budgets.create_notification(**which, Notification=_notification(100), Subscribers=[subscriber])
    again = {**which, "Notification": _notification(100), "Subscribers": [subscriber]}
    refuses("DuplicateRecordException", budgets.create_notification, **again)
    budgets.delete_notification(**which, Notification=_notification(80))
    shown = budgets.describe_notifications_for_budget(**which)["Notifications"]
    assert [one["Threshold"] for one in shown] == [100.0]
    refuses("NotFoundException", budgets.delete_notification, **which, Notification=_notification(80))

    budgets.tag_resource(ResourceARN=_ARN, ResourceTags=[{"Key": "stack", "Value": "dev"}])
    budgets.untag_resource(ResourceARN=_ARN, ResourceTagKeys=["owner"])
    tags = budgets.list_tags_for_resource(ResourceARN=_ARN)["ResourceTags"]
    assert tags == [{"Key": "stack", "Value": "dev"}]
    budgets.delete_budget(**which)
    refuses("NotFoundException", budgets.describe_notifications_for_budget, **which)
    refuses("NotFoundException", budgets.update_budget, AccountId=_ACCOUNT, NewBudget=_budget("1"))


def test_managed_policies_can_be_attached(world: World, refuses: Refuses) -> None:
    world.role("node", "ec2.amazonaws.com")
    iam = world.client("iam")
    names = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEBSCSIDriverPolicyV2")
    for name in names:
        iam.attach_role_policy(RoleName="node", PolicyArn=f"arn:aws:iam::aws:policy/{name}")
    attached = iam.list_attached_role_policies(RoleName="node")["AttachedPolicies"]
    assert {one["PolicyName"] for one in attached} == set(names)
    # AWS gave the second version of the policy no path, unlike the first.
    wrong = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicyV2"
    refuses("NoSuchEntity", iam.attach_role_policy, RoleName="node", PolicyArn=wrong)


def test_images_and_identity(world: World) -> None:
    name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    image_id = world.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    [image] = world.ec2.describe_images(ImageIds=[image_id])["Images"]
    assert image["Name"] == "amazon-eks-node-al2023-x86_64-nvidia-v20261101"
    assert world.client("sts").get_caller_identity()["Arn"] == "arn:aws:iam::123456789012:user/moto"

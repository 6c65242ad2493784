"""EKS operations that go across kinds: updates of clusters, node groups and add-ons, and tags."""

from typing import cast

from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import not_found
from infra.sandbox.cloud.eks.state import Cluster, Description, EksState, Update


def describe_update(call: Call) -> Description:
    """DescribeUpdate."""
    cluster, identifier = call.cluster("name"), call.text("updateId")
    held = _updates(call, cluster)
    if identifier not in held:
        raise not_found(f"No update found for ID: {identifier}", clusterName=cluster.name)
    return {"update": held[identifier].shown()}


def list_updates(call: Call) -> Description:
    """ListUpdates."""
    return call.page("updateIds", list(_updates(call, call.cluster("name"))))


def tag_resource(call: Call) -> Description:
    """TagResource."""
    tags = _tagged(call.state, call.text("resourceArn")).setdefault("tags", {})
    tags.update(call.mapping("tags"))
    return {}


def untag_resource(call: Call) -> Description:
    """UntagResource."""
    tags = cast("dict[str, str]", _tagged(call.state, call.text("resourceArn")).setdefault("tags", {}))
    for key in call.texts("tagKeys"):
        tags.pop(key, None)
    return {}


def list_tags_for_resource(call: Call) -> Description:
    """ListTagsForResource."""
    return {"tags": _tagged(call.state, call.text("resourceArn")).get("tags", {})}


def _updates(call: Call, cluster: Cluster) -> dict[str, Update]:
    node_group, addon = call.optional("nodegroupName"), call.optional("addonName")
    if node_group is not None:
        return cluster.node_group(node_group).updates
    return cluster.addon(addon).updates if addon is not None else cluster.updates


def _tagged(state: EksState, arn: str) -> Description:
    for cluster in state.clusters.values():
        described = [cluster.description]
        described += [group.description for group in cluster.node_groups.values()]
        described += [addon.description for addon in cluster.addons.values()]
        described += [entry.description for entry in cluster.access_entries.values()]
        described += list(cluster.associations.values())
        for description in described:
            if arn in (description.get(key) for key in _ARN_KEYS):
                return description
    raise not_found(f"The specified resource could not be found: {arn}")


_ARN_KEYS = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")

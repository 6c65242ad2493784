"""What the simulated EKS of one account and region holds."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# moto's backends are untyped.

import uuid
from dataclasses import dataclass, field
from typing import Any

from moto.eks.models import eks_backends

from infra.sandbox.cloud.eks.errors import not_found
from infra.sandbox.cloud.simulation import utc

Description = dict[str, Any]
"""One object as the API shows it, with the API's own keys."""


@dataclass
class Life:
    """A status that changes by itself.

    - `status`: now.
    - `due_s`: when it becomes `following`, in simulated seconds since 1970; None is never.
    - `following`: the next status; None is gone.
    """

    status: str
    due_s: float | None = None
    following: str | None = None

    def is_due(self, now_s: float) -> bool:
        """Whether the change has fallen due."""
        return self.due_s is not None and now_s >= self.due_s

    def settle(self, now_s: float) -> bool:
        """Change the status where that is due; False when the object is gone."""
        if not self.is_due(now_s):
            return True
        if self.following is None:
            return False
        self.status, self.due_s, self.following = self.following, None, None
        return True


@dataclass
class Update:
    """One entry of DescribeUpdate."""

    description: Description
    life: Life

    def shown(self) -> Description:
        """As the API shows it."""
        return {**self.description, "status": self.life.status}


@dataclass
class Addon:
    """One add-on."""

    description: Description
    life: Life
    updates: dict[str, Update] = field(default_factory=dict[str, Update])

    def shown(self) -> Description:
        """As the API shows it."""
        return {**self.description, "status": self.life.status}


@dataclass
class NodeGroup:
    """One managed node group.

    - `group_name`: its Auto Scaling group, which holds the scaling numbers.
    - `merged_template_id`: the launch template that EKS makes of the given one and its own settings.
    - `created_s`: simulated seconds since 1970.
    """

    description: Description
    life: Life
    group_name: str
    merged_template_id: str
    created_s: float
    updates: dict[str, Update] = field(default_factory=dict[str, Update])


@dataclass
class AccessEntry:
    """Who may talk to the cluster's Kubernetes, with the access policies associated (by policy ARN)."""

    description: Description
    policies: dict[str, Description] = field(default_factory=dict[str, Description])


@dataclass
class Cluster:
    """One cluster with everything under it; keys are names, ids and, for access entries, principal ARNs."""

    description: Description
    life: Life
    interface_ids: list[str] = field(default_factory=list[str])
    node_groups: dict[str, NodeGroup] = field(default_factory=dict[str, NodeGroup])
    addons: dict[str, Addon] = field(default_factory=dict[str, Addon])
    associations: dict[str, Description] = field(default_factory=dict[str, Description])
    access_entries: dict[str, AccessEntry] = field(default_factory=dict[str, AccessEntry])
    updates: dict[str, Update] = field(default_factory=dict[str, Update])

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.description["name"]

    def node_group(self, name: str) -> NodeGroup:
        """The node group; raises ResourceNotFoundException."""
        if name not in self.node_groups:
            raise not_found(f"No node group found for name: {name}.", clusterName=self.name, nodegroupName=name)
        return self.node_groups[name]

    def addon(self, name: str) -> Addon:
        """The add-on; raises ResourceNotFoundException."""
        if name not in self.addons:
            raise not_found(f"No addon: {name} found in cluster: {self.name}", clusterName=self.name, addonName=name)
        return self.addons[name]

    def access_entry(self, principal_arn: str) -> AccessEntry:
        """The access entry; raises ResourceNotFoundException."""
        if principal_arn not in self.access_entries:
            message = f"The specified principalArn could not be found: {principal_arn}"
            raise not_found(message, clusterName=self.name)
        return self.access_entries[principal_arn]

    def association(self, association_id: str) -> Description:
        """The pod identity association; raises ResourceNotFoundException."""
        if association_id not in self.associations:
            message = f"Association {association_id} was not found in cluster {self.name}"
            raise not_found(message, clusterName=self.name)
        return self.associations[association_id]


@dataclass
class EksState:
    """The clusters of one account and region."""

    account_id: str
    region: str
    partition: str
    clusters: dict[str, Cluster] = field(default_factory=dict[str, Cluster])

    def cluster(self, name: str) -> Cluster:
        """The cluster; raises ResourceNotFoundException."""
        if name not in self.clusters:
            raise not_found(f"No cluster found for name: {name}.", clusterName=name)
        return self.clusters[name]

    def arn(self, kind: str, *parts: str) -> str:
        """The ARN of an EKS object, such as `arn("addon", cluster, name, id)`."""
        path = "/".join((kind, *parts))
        return f"arn:{self.partition}:eks:{self.region}:{self.account_id}:{path}"


def eks_state(account_id: str, region: str) -> EksState:
    """The state, kept on moto's own backend so that a reset of moto clears it."""
    backend: Any = eks_backends[account_id][region]
    held: EksState | None = backend.__dict__.get("simulated_state")
    if held is None:
        held = EksState(account_id, region, str(backend.partition))
        backend.__dict__["simulated_state"] = held
    return held


def start_update(
    updates: dict[str, Update], kind: str, parameters: dict[str, Any], now_s: float, duration_s: float
) -> Update:
    """Record an update that becomes Successful after `duration_s`.

    - `kind`: the API's type, such as `ConfigUpdate`.
    - `parameters`: what changes, by the API's parameter type, such as `DesiredSize`.
    """
    description: Description = {
        "id": str(uuid.uuid4()),
        "type": kind,
        "params": [{"type": key, "value": str(value)} for key, value in parameters.items()],
        "createdAt": utc(now_s),
        "errors": [],
    }
    update = Update(description, Life("InProgress", now_s + duration_s, "Successful"))
    update.life.settle(now_s)
    updates[description["id"]] = update
    return update

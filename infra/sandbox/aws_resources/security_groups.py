"""Security groups and their rules, inline or as resources of their own."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first, tag_list, unless_gone
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, listed, nested, picked, same

_INLINE_RULE: Shape = dict.fromkeys(
    (
        "fromPort",
        "toPort",
        "protocol",
        "cidrBlocks",
        "ipv6CidrBlocks",
        "prefixListIds",
        "securityGroups",
        "self",
        "description",
    )
)
_EVERYTHING = "-1"


def _permission(rule: Properties, group_id: str) -> dict[str, Any]:
    """An inline rule in AWS's words."""
    words = {"Description": rule["description"]} if rule.get("description") else {}
    groups = [*(listed(rule, "securityGroups")), *((group_id,) if rule.get("self") else ())]
    permission: dict[str, Any] = {
        "IpProtocol": str(rule["protocol"]),
        "IpRanges": [{"CidrIp": cidr, **words} for cidr in listed(rule, "cidrBlocks")],
        "Ipv6Ranges": [{"CidrIpv6": cidr, **words} for cidr in listed(rule, "ipv6CidrBlocks")],
        "PrefixListIds": [{"PrefixListId": resource_id, **words} for resource_id in listed(rule, "prefixListIds")],
        "UserIdGroupPairs": [{"GroupId": resource_id, **words} for resource_id in groups],
    }
    if permission["IpProtocol"] != _EVERYTHING:
        permission |= {"FromPort": int(rule["fromPort"]), "ToPort": int(rule["toPort"])}
    return {key: value for key, value in permission.items() if value != []}


def _inline(permission: dict[str, Any], group_id: str) -> list[Properties]:
    """AWS's permission as inline rules: one for each description."""
    rules: dict[str, Properties] = {}
    for source, key, ours in (
        ("IpRanges", "CidrIp", "cidrBlocks"),
        ("Ipv6Ranges", "CidrIpv6", "ipv6CidrBlocks"),
        ("PrefixListIds", "PrefixListId", "prefixListIds"),
        ("UserIdGroupPairs", "GroupId", "securityGroups"),
    ):
        for entry in listed(permission, source):
            words = entry.get("Description") or ""
            rule = rules.setdefault(words, {"description": words} if words else {})
            if key == "GroupId" and entry[key] == group_id:
                rule["self"] = True
            else:
                rule.setdefault(ours, []).append(entry[key])
    protocol = permission["IpProtocol"]
    ports = {"fromPort": permission.get("FromPort"), "toPort": permission.get("ToPort")}
    if protocol == _EVERYTHING:
        ports = {"fromPort": 0, "toPort": 0}
    return [{"protocol": protocol, **ports, **rule} for rule in rules.values()]


class SecurityGroup(Ec2Type):
    """A named set of firewall rules. As with the AWS provider, a new group has no egress until a rule gives it."""

    token = "aws:ec2/securityGroup:SecurityGroup"
    label = "EC2 Security Group"
    kind = "security-group"
    inputs: ClassVar[Shape] = {
        "name": None,
        "description": None,
        "vpcId": None,
        "ingress": _INLINE_RULE,
        "egress": _INLINE_RULE,
        "revokeRulesOnDelete": None,
        "tags": None,
    }
    defaults: ClassVar[Mapping[str, Any]] = {"description": "Managed by Pulumi"}
    computed = ("arn", "ownerId", "tagsAll")
    replace_on = frozenset({"description", "vpcId"})
    name_key = "name"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, name="GroupName", description="Description", vpcId="VpcId")
        ec2 = clients.client("ec2")
        resource_id = str(ec2.create_security_group(**names, **self._tags_at_creation(inputs))["GroupId"])
        found = first(ec2.describe_security_groups(GroupIds=[resource_id]), "SecurityGroups")
        if found.get("IpPermissionsEgress"):
            ec2.revoke_security_group_egress(GroupId=resource_id, IpPermissions=found["IpPermissionsEgress"])
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        ec2 = clients.client("ec2")
        for side in ("ingress", "egress"):
            before, after = listed(old, side), listed(new, side)
            for rule in before:
                if not any(same(rule, other) for other in after):
                    call = getattr(ec2, f"revoke_security_group_{side}")
                    unless_gone(
                        lambda call=call, rule=rule: call(
                            GroupId=resource_id, IpPermissions=[_permission(rule, resource_id)]
                        )
                    )
            for rule in after:
                if not any(same(rule, other) for other in before):
                    call = getattr(ec2, f"authorize_security_group_{side}")
                    call(GroupId=resource_id, IpPermissions=[_permission(rule, resource_id)])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = first(clients.client("ec2").describe_security_groups(GroupIds=[resource_id]), "SecurityGroups")
        if found is None:
            return None
        live = {
            **self._common(clients, resource_id, found),
            "name": found["GroupName"],
            "description": found["Description"],
            "vpcId": found.get("VpcId"),
        }
        # Rules that are resources of their own don't belong to the group.
        for side, theirs in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
            if side in state:
                live[side] = [rule for one in listed(found, theirs) for rule in _inline(one, resource_id)]
        return live

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        ec2 = clients.client("ec2")
        if state.get("revokeRulesOnDelete"):
            _revoke_all(ec2, resource_id)
        ec2.delete_security_group(GroupId=resource_id)


def _revoke_all(ec2: Any, resource_id: str) -> None:
    found = first(ec2.describe_security_groups(GroupIds=[resource_id]), "SecurityGroups")
    for theirs, call in (
        ("IpPermissions", ec2.revoke_security_group_ingress),
        ("IpPermissionsEgress", ec2.revoke_security_group_egress),
    ):
        if found.get(theirs):
            call(GroupId=resource_id, IpPermissions=found[theirs])


class DefaultSecurityGroup(SecurityGroup):
    """A VPC's own default group, taken over: all its rules go except those given. It can't be deleted, only let go."""

    token = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    label = "EC2 Default Security Group"
    inputs: ClassVar[Shape] = {
        "vpcId": None,
        "ingress": _INLINE_RULE,
        "egress": _INLINE_RULE,
        "revokeRulesOnDelete": None,
        "tags": None,
    }
    required = ("vpcId",)
    defaults: ClassVar[Mapping[str, Any]] = {}
    computed = ("arn", "ownerId", "tagsAll", "name", "description")
    replace_on = frozenset({"vpcId"})
    name_key = None

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        ec2 = clients.client("ec2")
        filters = [
            {"Name": "vpc-id", "Values": [inputs["vpcId"]]},
            {"Name": "group-name", "Values": ["default"]},
        ]
        found = first(ec2.describe_security_groups(Filters=filters), "SecurityGroups")
        if found is None:
            raise AwsResourceError(f"VPC {inputs['vpcId']} has no default security group; create the VPC first")
        resource_id = str(found["GroupId"])
        _revoke_all(ec2, resource_id)
        if inputs.get("tagsAll"):
            ec2.create_tags(Resources=[resource_id], Tags=tag_list(inputs["tagsAll"]))
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        # Its emptiness is what was asked for, so both sides are always its own.
        return super()._live(clients, resource_id, {**state, "ingress": [], "egress": []})

    def inputs_from(
        self, recorded: Properties, outputs: Properties, default_tags: Mapping[str, str] | None = None
    ) -> Properties:
        """As for any resource; a rule added by hand shows although none was given."""
        sides: Properties = {side: [] for side in ("ingress", "egress") if outputs.get(side)}
        return super().inputs_from({**sides, **recorded}, outputs, default_tags)

    def delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Let it go: AWS deletes it with its VPC."""

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Nothing: AWS refuses to delete a default group."""


class _SecurityGroupRule(Ec2Type):
    kind = "security-group-rule"
    egress: ClassVar[bool]
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "securityGroupId",
            "ipProtocol",
            "fromPort",
            "toPort",
            "cidrIpv4",
            "cidrIpv6",
            "prefixListId",
            "referencedSecurityGroupId",
            "description",
            "tags",
        )
    )
    required = ("securityGroupId", "ipProtocol")
    computed = ("arn", "securityGroupRuleId", "tagsAll")
    replace_on = frozenset({"securityGroupId"})

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        sources = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
        given = [name for name in sources if name in inputs]
        if len(given) == 1:
            return []
        words = " and ".join(given) if given else "none"
        return [(given[0] if given else sources[0], f"exactly one of {', '.join(sources)}: got {words}")]

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        ec2 = clients.client("ec2")
        words = picked(inputs, description="Description")
        permission = picked(inputs, ipProtocol="IpProtocol", fromPort="FromPort", toPort="ToPort")
        for ours, theirs, key in (
            ("cidrIpv4", "IpRanges", "CidrIp"),
            ("cidrIpv6", "Ipv6Ranges", "CidrIpv6"),
            ("prefixListId", "PrefixListIds", "PrefixListId"),
            ("referencedSecurityGroupId", "UserIdGroupPairs", "GroupId"),
        ):
            if ours in inputs:
                permission[theirs] = [{key: inputs[ours], **words}]
        call = ec2.authorize_security_group_egress if self.egress else ec2.authorize_security_group_ingress
        answer = call(GroupId=inputs["securityGroupId"], IpPermissions=[permission], **self._tags_at_creation(inputs))
        return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        rule = {
            "FromPort": -1,
            "ToPort": -1,
            "Description": "",
            **picked(
                new,
                ipProtocol="IpProtocol",
                fromPort="FromPort",
                toPort="ToPort",
                cidrIpv4="CidrIpv4",
                cidrIpv6="CidrIpv6",
                prefixListId="PrefixListId",
                referencedSecurityGroupId="ReferencedGroupId",
                description="Description",
            ),
        }
        clients.client("ec2").modify_security_group_rules(
            GroupId=new["securityGroupId"],
            SecurityGroupRules=[{"SecurityGroupRuleId": resource_id, "SecurityGroupRule": rule}],
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        rules = clients.client("ec2").describe_security_group_rules(SecurityGroupRuleIds=[resource_id])
        found = first(rules, "SecurityGroupRules")
        if found is None:
            return None
        everything = found["IpProtocol"] == _EVERYTHING
        common = self._common(clients, resource_id, found)
        common.pop("ownerId")
        return {
            **common,
            "securityGroupRuleId": resource_id,
            "securityGroupId": found["GroupId"],
            "ipProtocol": found["IpProtocol"],
            # "All protocols" has no ports, whatever was given.
            **({} if everything else {"fromPort": found.get("FromPort"), "toPort": found.get("ToPort")}),
            "cidrIpv4": found.get("CidrIpv4"),
            "cidrIpv6": found.get("CidrIpv6"),
            "prefixListId": found.get("PrefixListId"),
            "referencedSecurityGroupId": nested(found, "ReferencedGroupInfo").get("GroupId"),
            "description": found.get("Description") or None,
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        ec2 = clients.client("ec2")
        call = ec2.revoke_security_group_egress if self.egress else ec2.revoke_security_group_ingress
        call(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[resource_id])


class SecurityGroupIngressRule(_SecurityGroupRule):
    """One rule for traffic in."""

    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    label = "VPC Security Group Ingress Rule"
    egress = False


class SecurityGroupEgressRule(_SecurityGroupRule):
    """One rule for traffic out."""

    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    label = "VPC Security Group Egress Rule"
    egress = True

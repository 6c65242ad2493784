"""EC2 launch templates: an update makes a new version."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first, tag_list, tag_map
from infra.sandbox.aws_resources.properties import Properties, Shape, camel, listed, pascal, renamed

# Where AWS's name is not just Pulumi's with a capital letter.
_THEIRS = {
    "securityGroups": "Groups",
    "vpcSecurityGroupIds": "SecurityGroupIds",
    "ipv4AddressCount": "SecondaryPrivateIpAddressCount",
    "ramDiskId": "RamDiskId",
}
_OURS = {theirs: ours for ours, theirs in _THEIRS.items()}
# Arguments that Pulumi types as text and AWS as booleans.
_BOOLEANS = frozenset({"EbsOptimized", "Encrypted", "DeleteOnTermination", "AssociatePublicIpAddress", "PrimaryIpv6"})
_NOT_DATA = ("name", "description", "tags", "tagsAll", "updateDefaultVersion", "defaultVersion", "__defaults")


def _theirs(name: str) -> str:
    return _THEIRS.get(name, pascal(name))


def _ours(name: str) -> str:
    return _OURS.get(name, camel(name))


def _with_booleans(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: str(item).lower() == "true" if key in _BOOLEANS and isinstance(item, str) else _with_booleans(item)
            for key, item in cast("Mapping[str, Any]", value).items()
        }
    return [_with_booleans(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _data(inputs: Properties) -> dict[str, Any]:
    """The arguments as AWS's LaunchTemplateData."""
    plain = {key: value for key, value in inputs.items() if key not in _NOT_DATA and key != "tagSpecifications"}
    data = _with_booleans(renamed(plain, _theirs))
    specifications = [
        {"ResourceType": one["resourceType"], "Tags": tag_list(one.get("tags"))}
        for one in listed(inputs, "tagSpecifications")
    ]
    return {**data, **({"TagSpecifications": specifications} if specifications else {})}


class LaunchTemplate(Ec2Type):
    """What machines are started with."""

    token = "aws:ec2/launchTemplate:LaunchTemplate"
    label = "EC2 Launch Template"
    kind = "launch-template"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "name",
                "description",
                "tags",
                "updateDefaultVersion",
                "defaultVersion",
                "disableApiStop",
                "disableApiTermination",
                "ebsOptimized",
                "imageId",
                "instanceInitiatedShutdownBehavior",
                "instanceType",
                "keyName",
                "userData",
                "vpcSecurityGroupIds",
            )
        ),
        "blockDeviceMappings": {
            **dict.fromkeys(("deviceName", "noDevice", "virtualName")),
            "ebs": dict.fromkeys(
                (
                    "deleteOnTermination",
                    "encrypted",
                    "iops",
                    "kmsKeyId",
                    "snapshotId",
                    "throughput",
                    "volumeSize",
                    "volumeType",
                )
            ),
        },
        "capacityReservationSpecification": {
            "capacityReservationPreference": None,
            "capacityReservationTarget": dict.fromkeys(
                ("capacityReservationId", "capacityReservationResourceGroupArn")
            ),
        },
        "cpuOptions": dict.fromkeys(("coreCount", "threadsPerCore")),
        "iamInstanceProfile": dict.fromkeys(("arn", "name")),
        "instanceMarketOptions": {
            "marketType": None,
            "spotOptions": dict.fromkeys(
                ("blockDurationMinutes", "instanceInterruptionBehavior", "maxPrice", "spotInstanceType", "validUntil")
            ),
        },
        "metadataOptions": dict.fromkeys(
            ("httpEndpoint", "httpProtocolIpv6", "httpPutResponseHopLimit", "httpTokens", "instanceMetadataTags")
        ),
        "monitoring": {"enabled": None},
        "networkInterfaces": dict.fromkeys(
            (
                "associatePublicIpAddress",
                "deleteOnTermination",
                "description",
                "deviceIndex",
                "interfaceType",
                "networkCardIndex",
                "networkInterfaceId",
                "primaryIpv6",
                "privateIpAddress",
                "securityGroups",
                "subnetId",
            )
        ),
        "networkPerformanceOptions": {"bandwidthWeighting": None},
        "placement": dict.fromkeys(("affinity", "availabilityZone", "groupName", "groupId", "hostId", "tenancy")),
        "privateDnsNameOptions": dict.fromkeys(
            ("enableResourceNameDnsARecord", "enableResourceNameDnsAaaaRecord", "hostnameType")
        ),
        "tagSpecifications": {"resourceType": None, "tags": None},
    }
    computed = ("arn", "tagsAll")
    volatile = ("latestVersion", "defaultVersion")
    name_key = "name"
    ordered = frozenset({"networkInterfaces"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        ec2 = clients.client("ec2")
        data = _data(inputs)
        self._check_groups(ec2, data)
        words = {"VersionDescription": inputs["description"]} if inputs.get("description") else {}
        answer = ec2.create_launch_template(
            LaunchTemplateName=inputs["name"], LaunchTemplateData=data, **words, **self._tags_at_creation(inputs)
        )
        return str(answer["LaunchTemplate"]["LaunchTemplateId"])

    def _check_groups(self, ec2: Any, data: dict[str, Any]) -> None:
        """AWS refuses groups that don't exist when a machine starts; here nothing starts from most templates."""
        groups = {resource_id for card in listed(data, "NetworkInterfaces") for resource_id in listed(card, "Groups")}
        groups |= set(listed(data, "SecurityGroupIds"))
        if groups:
            ec2.describe_security_groups(GroupIds=sorted(groups))

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        ec2 = clients.client("ec2")
        no_version = ("tags", "tagsAll", "updateDefaultVersion", "defaultVersion")
        content = [path for path in self.diff(old, new).changes if path.split(".")[0].split("[")[0] not in no_version]
        if content:
            data = _data(new)
            self._check_groups(ec2, data)
            words = {"VersionDescription": new["description"]} if new.get("description") else {}
            ec2.create_launch_template_version(LaunchTemplateId=resource_id, LaunchTemplateData=data, **words)
        wanted = new.get("defaultVersion")
        if new.get("updateDefaultVersion"):
            wanted = self._found(clients, resource_id)["LatestVersionNumber"]
        if wanted is not None:
            ec2.modify_launch_template(LaunchTemplateId=resource_id, DefaultVersion=str(wanted))

    def _found(self, clients: AwsClients, resource_id: str) -> Any:
        return first(
            clients.client("ec2").describe_launch_templates(LaunchTemplateIds=[resource_id]), "LaunchTemplates"
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, resource_id)
        if found is None:
            return None
        answer = clients.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=resource_id, Versions=["$Latest"]
        )
        version = first(answer, "LaunchTemplateVersions")
        data = dict(version["LaunchTemplateData"])
        specifications = [
            one
            for one in data.pop("TagSpecifications", None) or ()
            # The template's own tags stand elsewhere.
            if one["ResourceType"] != "launch-template"
        ]
        absent: Properties = {key: None for key in self.inputs if key not in (*_NOT_DATA, "description")}
        live = {
            **absent,
            **renamed(data, _ours),
            "arn": clients.arn("ec2", f"launch-template/{resource_id}"),
            "name": found["LaunchTemplateName"],
            "description": version.get("VersionDescription") or None,
            "latestVersion": found["LatestVersionNumber"],
            "defaultVersion": found["DefaultVersionNumber"],
            "tagsAll": self._live_tags(clients, resource_id),
        }
        if specifications:
            live["tagSpecifications"] = [
                {"resourceType": one["ResourceType"], "tags": tag_map(one.get("Tags"))} for one in specifications
            ]
        return live

    def _live_tags(self, clients: AwsClients, resource_id: str) -> dict[str, str]:
        filters = [{"Name": "resource-id", "Values": [resource_id]}]
        return tag_map(clients.client("ec2").describe_tags(Filters=filters)["Tags"])

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_launch_template(LaunchTemplateId=resource_id)

"""Who am I, is the clock right, does the region sell the machine, and has the network room."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as AwsConnectionError

from infra.naming import COST_TAG_KEY
from infra.preflight.findings import Finding, from_error, not_asked, ok, stops, warning
from infra.preflight.question import Question

LARGEST_SKEW_S = 300.0
"""AWS refuses requests whose time is off by more (Signature Version 4)."""
_ADDRESSES_A_NODE = 100
"""A GPU node's CNI holds its first interface's 50 addresses and a spare interface of 50 (EC2: 50 for p5 types)."""


def credentials(question: Question) -> list[Finding]:
    """The caller, the account guard, and this machine's clock against AWS's."""
    try:
        answer: dict[str, Any] = question.account.client("sts").get_caller_identity()
    except ClientError as error:
        response = cast("dict[str, Any]", error.response)
        headers = cast("dict[str, str]", response.get("ResponseMetadata", {}).get("HTTPHeaders", {}))
        return [from_error("credentials", error, "sts"), clock_finding(headers.get("date"), datetime.now(UTC))]
    except (AwsConnectionError, HTTPClientError) as error:
        remedy = "check the network, a proxy, dormouse:region and AWS_ENDPOINT_URL; nothing else below can be known"
        return [
            stops("credentials", f"AWS cannot be reached: {error}", remedy),
            not_asked("clock", "AWS cannot be reached"),
        ]
    wanted, account = question.environment.account_id, str(answer["Account"])
    if wanted is not None and wanted != account:
        who = stops(
            "credentials",
            f"these credentials ({answer['Arn']}) belong to account {account}; dormouse:accountId is {wanted}",
            "choose the right profile with AWS_PROFILE, or correct dormouse:accountId",
            account=account,
        )
    else:
        guard = "" if wanted else "; dormouse:accountId guards no account yet"
        who = ok("credentials", f"{answer['Arn']}{guard}", account=account)
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return [who, clock_finding(date, datetime.now(UTC))]


def clock_finding(date: str | None, now: datetime) -> Finding:
    """The machine's time `now` against an HTTP `Date` header."""
    if date is None:
        return not_asked("clock", "AWS's answer had no date")
    off_s = (now - parsedate_to_datetime(date)).total_seconds()
    words = f"this machine's clock is {abs(off_s):.0f} s {'ahead of' if off_s > 0 else 'behind'} AWS's"
    if abs(off_s) > LARGEST_SKEW_S:
        return stops(
            "clock", f"{words}; AWS refuses more than 5 minutes", "set the clock (NTP, `chronyc makestep`)", offS=off_s
        )
    return ok("clock", words, offS=round(off_s))


def zones(question: Question) -> list[Finding]:
    """Whether each candidate's zone exists in this account and sells the machine."""
    ec2 = question.account.client("ec2")
    shape, region = question.environment.shape, question.environment.region
    sold = {
        str(one["Location"])
        for one in ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [shape.name]}]
        )["InstanceTypeOfferings"]
    }
    known = {str(z["ZoneName"]): str(z["ZoneId"]) for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    names = {zone_id: name for name, zone_id in known.items()}
    where = ", ".join(sorted(known.get(name, name) for name in sold))
    if not sold:
        regions = sorted({zone.split("-")[0] for zone in shape.zone_ids})
        return [stops("zones", f"{region} does not sell {shape.name}", f"another region: {', '.join(regions)}")]
    findings: list[Finding] = []
    for candidate in dict.fromkeys(one.zone for one in question.environment.candidates):
        name = names.get(candidate, candidate)
        if name not in known:
            findings.append(stops("zones", f"{candidate} is no zone of this account", f"one of: {where}"))
        elif name not in sold:
            findings.append(stops("zones", f"{candidate} does not sell {shape.name}", f"one of: {where}"))
    return findings or [ok("zones", f"{shape.name} is sold in {where}", zoneIds=where.split(", "))]


def subnets(question: Question) -> list[Finding]:
    """Free addresses in the network's subnets for nodes, where the stack's network exists."""
    name, cidr = question.environment.name, question.environment.network_cidr
    found = question.account.client("ec2").describe_subnets(Filters=[{"Name": f"tag:{COST_TAG_KEY}", "Values": [name]}])
    private = [one for one in found["Subnets"] if "-private-" in _tag(one, "Name")]
    if not private:
        return [ok("subnets", f"the network does not exist yet; `pulumi up` makes it in {cidr}")]
    need = _ADDRESSES_A_NODE * question.environment.replicas.machines
    findings: list[Finding] = []
    for one in private:
        free, zone = int(one["AvailableIpAddressCount"]), str(one["AvailabilityZone"])
        words = f"{zone}: {free:,} addresses free in {one['SubnetId']}; a wake may take {need}"
        if free < need:
            findings.append(warning("subnets", words, "a larger dormouse:networkCidr (a new stack), or fewer pods"))
        else:
            findings.append(ok("subnets", words, free=free, zone=zone))
    return findings


def _tag(described: dict[str, Any], key: str) -> str:
    tags: list[dict[str, str]] = described.get("Tags") or []
    return next((tag["Value"] for tag in tags if tag["Key"] == key), "")

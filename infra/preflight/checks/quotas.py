"""Quotas, found by name at run time, and how many nodes they leave."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, cast

from components.gpu_node_group import Purchase
from infra.naming import COST_TAG_KEY
from infra.preflight.findings import Finding, Level, ok, warning
from infra.preflight.question import Question
from serving.units import GIB

_TIB = GIB * 1024


@cache
def quota_names() -> Mapping[str, Mapping[str, str]]:
    """The rows of `serving/data/quotas.toml` by their key."""
    text = (resources.files("serving") / "data" / "quotas.toml").read_text(encoding="utf-8")
    return {key: cast("dict[str, str]", row) for key, row in tomllib.loads(text).items() if isinstance(row, dict)}


def vcpus(question: Question) -> list[Finding]:
    """The P quotas of each purchase mode among the candidates, in vCPUs and in nodes; stops where none allows one."""
    modes = {one.purchase for one in question.environment.candidates}
    quotas = _list(question, "ec2")
    used = _used_vcpus(question)
    findings: list[Finding] = []
    if Purchase.ON_DEMAND in modes:
        name = quota_names()["on_demand_p"]["name"]
        findings += [_nodes("quota-on-demand", question, name, quotas.get(name), used["on-demand"])]
    if Purchase.SPOT in modes:
        pattern = re.compile(quota_names()["spot_p"]["name_pattern"])
        listed = {name: quota for name, quota in quotas.items() if pattern.search(name)}
        name = spot_quota_for(question.environment.shape.name, listed)
        if name is None:
            seen = "; ".join(f"{key}: {row['Value']:g}" for key, row in listed.items()) or "none"
            words = f"no spot quota names the family of {question.environment.shape.name}; P quotas listed: {seen}"
            findings.append(warning("quota-spot", words, "open Service Quotas, Amazon EC2, and look for `Spot`"))
        else:
            findings.append(_nodes("quota-spot", question, name, listed[name], used["spot"]))
    # One candidate that can start is enough to go on; a Capacity Block does not count against these, as far as known.
    if Purchase.CAPACITY_BLOCK in modes or any(one.facts.get("nodes", 1) for one in findings):
        return findings
    return [Finding(one.check, Level.STOPS, one.words, one.remedy, one.facts) for one in findings]


def spot_quota_for(instance_type: str, names: Mapping[str, Any]) -> str | None:
    """The name among `names` that covers the type's family: `P5` exactly, else plain `P`; None where none does."""
    family = re.match(r"[a-z]+\d+", instance_type)
    for word in (family[0].upper() if family else "", "P"):
        for name in names:
            if word and re.search(rf"\b{word}\b", name):
                return name
    return None


def others(question: Question) -> list[Finding]:
    """gp3 storage, VPCs and Elastic IPs: the quota, what is used, what the stack adds."""
    ec2 = question.account.client("ec2")
    environment = question.environment
    tag = [{"Name": f"tag:{COST_TAG_KEY}", "Values": [environment.name]}]
    exists = bool(ec2.describe_vpcs(Filters=tag)["Vpcs"])
    volumes = environment.storage.volumes
    gp3 = [{"Name": "volume-type", "Values": ["gp3"]}]
    volumes_gib = sum(
        int(v["Size"]) for p in ec2.get_paginator("describe_volumes").paginate(Filters=gp3) for v in p["Volumes"]
    )
    new_gib = 0 if exists else environment.weights.size_gib * volumes
    asked = (
        ("gp3_storage", volumes_gib * GIB / _TIB, new_gib * GIB / _TIB),
        ("vpcs", len(ec2.describe_vpcs()["Vpcs"]), 0 if exists else 1),
        ("elastic_ips", len(ec2.describe_addresses()["Addresses"]), 0 if exists else 1),
    )
    listed = {service: _list(question, service) for service in ("ebs", "vpc", "ec2")}
    findings: list[Finding] = []
    for key, used, added in asked:
        row = quota_names()[key]
        quota = listed[row["service"]].get(row["name"])
        check = f"quota-{key.replace('_', '-')}"
        if quota is None:
            findings.append(warning(check, f"AWS lists no quota named {row['name']!r}", "look it up in Service Quotas"))
            continue
        value = float(quota["Value"])
        words = f"{row['name']}: {used:.3g} of {value:g} used, this stack adds {added:.3g}"
        facts = {"quota": value, "used": round(used, 2), "adds": round(added, 2), "code": quota["QuotaCode"]}
        if used + added <= value:
            findings.append(Finding(check, Level.OK, words, "", facts))
        else:
            remedy = _increase(question, quota, used + added)
            findings.append(Finding(check, Level.STOPS, words, remedy, facts))
    return findings


def _nodes(check: str, question: Question, name: str, quota: Mapping[str, Any] | None, used: int) -> Finding:
    each, wanted = question.environment.shape.vcpus, question.environment.replicas.machines
    if quota is None:
        return warning(check, f"AWS lists no quota named {name!r}", "look it up in Service Quotas, Amazon EC2")
    value = float(quota["Value"])
    nodes = max(0, int((value - used) // each))
    words = (
        f"{name}: {value:g} vCPUs, {used} in use: room for {nodes} × {question.environment.shape.name} ({each} each)"
    )
    facts = {"quota": value, "used": used, "nodes": nodes, "code": str(quota["QuotaCode"])}
    if nodes >= wanted:
        return ok(check, words, **facts)
    return warning(check, words, _increase(question, quota, used + each * wanted), **facts)


def _increase(question: Question, quota: Mapping[str, Any], needed: float) -> str:
    desired = int(needed) if needed == int(needed) else int(needed) + 1
    return (
        f"aws service-quotas request-service-quota-increase --region {question.environment.region} --service-code "
        f"{quota['ServiceCode']} --quota-code {quota['QuotaCode']} --desired-value {desired}"
    )


def _list(question: Question, service: str) -> dict[str, dict[str, Any]]:
    """The account's quotas of a service by name; those without a value of its own come from AWS's defaults."""
    client = question.account.client("service-quotas")
    named: dict[str, dict[str, Any]] = {}
    for operation in ("list_aws_default_service_quotas", "list_service_quotas"):
        for page in client.get_paginator(operation).paginate(ServiceCode=service):
            named |= {str(one["QuotaName"]): one for one in page["Quotas"]}
    return named


def _used_vcpus(question: Question) -> dict[str, int]:
    """Count the vCPUs of running P instances, on demand and spot."""
    used = {"on-demand": 0, "spot": 0}
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        {"Name": "instance-type", "Values": ["p*"]},
    ]
    for page in question.account.client("ec2").get_paginator("describe_instances").paginate(Filters=filters):
        for one in (instance for reservation in page["Reservations"] for instance in reservation["Instances"]):
            cpu: dict[str, int] = one.get("CpuOptions") or {}
            count = cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1) or question.environment.shape.vcpus
            lifecycle = one.get("InstanceLifecycle", "on-demand")
            if lifecycle in used:
                used[lifecycle] += count
    return used

"""Service Quotas of the simulated account, by the names that AWS gives them; values of an account that may run two nodes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

import json
from typing import Any

from moto.servicequotas.responses import ServiceQuotasResponse

from infra.sandbox.cloud.simulation import current

_QUOTAS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "ec2": (
        ("L-417A185B", "Running On-Demand P instances", 384.0),
        ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", 0.0),
        ("L-00000001", "All P5 Spot Instance Requests", 384.0),
        ("L-0263D0A3", "EC2-VPC Elastic IPs", 5.0),
    ),
    "ebs": (("L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB", 50.0),),
    "vpc": (("L-F678F1CE", "VPCs per Region", 5.0),),
}


def install() -> None:
    """Answer the two lists in the place of moto's."""
    response: Any = ServiceQuotasResponse
    response.list_service_quotas = _list
    response.list_aws_default_service_quotas = _list


def _list(self: Any) -> str:
    service = str(json.loads(self.body).get("ServiceCode"))
    changed = current().capacity.quotas
    quotas = [
        {
            "ServiceCode": service,
            "ServiceName": f"Amazon {service.upper()}",
            "QuotaArn": f"arn:aws:servicequotas:{self.region}:{self.current_account}:{service}/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": changed.get(name, value),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for code, name, value in _QUOTAS.get(service, ())
    ]
    return json.dumps({"Quotas": quotas})

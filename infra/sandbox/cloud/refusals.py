"""AWS's words for an instance that did not come, as an Auto Scaling group of EKS shows them."""

from dataclasses import dataclass

_ENDING = "Launching EC2 instance failed."


@dataclass(frozen=True)
class Refusal:
    """One refused launch: EC2's error `code`, and the `message` that the scaling activity shows."""

    code: str
    message: str


_USUAL_CODE = {
    "on-demand": "InsufficientInstanceCapacity",
    "spot": "UnfulfillableCapacity",
    "capacity-block": "ReservationCapacityExceeded",
}

# EKS's Auto Scaling groups launch through EC2 Fleet, which puts the code in front of EC2's own sentence.
_OPENING = {
    "on-demand": "Could not launch On-Demand Instances.",
    "spot": "Could not launch Spot Instances.",
    "capacity-block": "Could not launch Capacity Block Instances.",
}


def refusal_for(
    purchase: str,
    instance_type: str,
    zone: str,
    code: str | None = None,
    reservation_id: str | None = None,
    block_state: str | None = None,
) -> Refusal:
    """The refusal with AWS's wording.

    - `purchase`: `on-demand`, `spot` or `capacity-block`.
    - `code`: EC2's error code; None is the one usual for that purchase.
    - `reservation_id`, `block_state`: for Capacity Blocks.
    """
    code = code or _USUAL_CODE[purchase]
    sentence = _sentence(code, purchase, instance_type, zone, reservation_id or "none", block_state or "not active")
    return Refusal(code, f"{_OPENING[purchase]} {code} - {sentence} {_ENDING}")


def _sentence(code: str, purchase: str, instance_type: str, zone: str, reservation: str, block_state: str) -> str:
    if code == "InsufficientInstanceCapacity" and purchase == "spot":
        return "There is no Spot capacity available that matches your request."
    sentences = {
        "InsufficientInstanceCapacity": (
            f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
            f"({zone}). Our system will be working on provisioning additional capacity."
        ),
        "UnfulfillableCapacity": (
            "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again."
        ),
        "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
        "VcpuLimitExceeded": (
            "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket that "
            "the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to "
            "request an adjustment to this limit."
        ),
        "ReservationCapacityExceeded": (
            f"The requested reservation {reservation} does not have sufficient compatible and available capacity "
            "for this request."
        ),
        "InvalidCapacityReservationId.NotFound": f"The capacity reservation ID '{reservation}' does not exist",
        "InvalidCapacityReservationState": (
            f"The capacity reservation '{reservation}' is not in the active state (it is {block_state})."
        ),
        "Unsupported": (
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
            f"({zone}). Please retry your request by not specifying an Availability Zone."
        ),
    }
    return sentences.get(code, f"EC2 refused {instance_type} in {zone}.")

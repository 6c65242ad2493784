"""Which addresses each subnet gets: pure arithmetic over the VPC's CIDR."""

import ipaddress
from dataclasses import dataclass

_BLOCKS = 8
_PUBLIC_BLOCK = 6
_CONTROL_PLANE_BLOCK = 7
_CONTROL_PLANE_PREFIX = 28
LARGEST_VPC_PREFIX = 16
SMALLEST_VPC_PREFIX = 20
ZONE_LETTERS = "abcdef"


@dataclass(frozen=True)
class ZoneSubnets:
    """The three subnets of one zone, as CIDRs.

    - `private`: nodes and pods. `public`: NAT gateway and public load balancers, never a node.
    - `control_plane`: the API server's network interfaces and nothing else, so that a policy can name them.
    """

    zone: str
    private: str
    public: str
    control_plane: str


def vpc_fault(cidr: str) -> str | None:
    """What is wrong with a VPC's CIDR, or None."""
    accepted = (
        f"accepted: a private IPv4 block from /{LARGEST_VPC_PREFIX} to /{SMALLEST_VPC_PREFIX} without host bits,"
        " such as 10.40.0.0/16"
    )
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        return f"got {cidr} ({error}); {accepted}"
    if not LARGEST_VPC_PREFIX <= network.prefixlen <= SMALLEST_VPC_PREFIX or not network.is_private:
        return f"got {cidr}; {accepted}"
    return None


def zone_fault(zone: str) -> str | None:
    """What is wrong with a zone's name, or None."""
    if len(zone) < 2 or zone[-1] not in ZONE_LETTERS or not zone[-2].isdigit():
        return f"got {zone}; accepted: an availability zone whose letter is one of {', '.join(ZONE_LETTERS)}"
    return None


def zone_subnets(vpc_cidr: str, zone: str) -> ZoneSubnets:
    """The subnets of `zone`, found from its letter alone: another zone's coming or going never moves them.

    The VPC is cut into eight blocks: six for the private subnets of zones a to f, one for all public subnets, one for
    the control plane's. Raises ValueError where `vpc_fault` or `zone_fault` would say something.
    """
    if fault := vpc_fault(vpc_cidr) or zone_fault(zone):
        raise ValueError(fault)
    index = ZONE_LETTERS.index(zone[-1])
    network = ipaddress.IPv4Network(vpc_cidr)
    blocks = list(network.subnets(prefixlen_diff=_BLOCKS.bit_length() - 1))
    public = list(blocks[_PUBLIC_BLOCK].subnets(prefixlen_diff=_BLOCKS.bit_length() - 1))
    control_plane = list(blocks[_CONTROL_PLANE_BLOCK].subnets(new_prefix=_CONTROL_PLANE_PREFIX))
    return ZoneSubnets(zone, str(blocks[index]), str(public[index]), str(control_plane[index]))

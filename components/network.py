"""The VPC: private subnets for nodes, public ones for the NAT gateway, small ones for the control plane."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.cidr import vpc_fault, zone_fault, zone_subnets


class NetworkArgs(TypedDict):
    """Arguments of `Network`."""

    region: str
    """The AWS region, such as `us-east-2`."""
    zones: list[str]
    """Availability zones by name, two at least, such as `us-east-2a`; their order never matters."""
    cidr: NotRequired[str]
    """The VPC's addresses, /16 to /20. Default: 10.40.0.0/16."""
    tags: NotRequired[dict[str, str]]
    """Tags of every resource."""


class Network(pulumi.ComponentResource):
    """A VPC with one NAT gateway and a free S3 gateway endpoint; nothing in it has a public address but the NAT."""

    vpc_id: pulumi.Output[str]
    """The VPC's id."""
    private_subnet_ids: pulumi.Output[list[str]]
    """Subnets for nodes, one for each zone, zones in alphabetical order."""
    public_subnet_ids: pulumi.Output[list[str]]
    """Subnets for public load balancers, in the same order."""
    control_plane_subnet_ids: pulumi.Output[list[str]]
    """Subnets for the cluster's control plane, in the same order."""
    private_cidrs: pulumi.Output[list[str]]
    """Addresses of nodes and pods."""
    control_plane_cidrs: pulumi.Output[list[str]]
    """Addresses of the control plane's network interfaces."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the network."""
        super().__init__("dormouse:index:Network", name, {}, opts)
        given = Arguments("Network", args)
        region = given.text("region")
        zones = sorted(set(given.texts("zones", at_least=2)))
        cidr = given.text("cidr", "10.40.0.0/16")
        if fault := vpc_fault(cidr):
            given.fault("cidr", fault)
        for zone in zones:
            if fault := zone_fault(zone):
                given.fault("zones", fault)
        given.check()
        tags = given.tags()
        subnets = [zone_subnets(cidr, zone) for zone in zones]
        child = pulumi.ResourceOptions(parent=self)

        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags={**tags, "Name": name},
            opts=child,
        )
        # The default security group lets its members talk to each other; nobody is to become one by accident.
        aws.ec2.DefaultSecurityGroup(
            f"{name}-default", vpc_id=vpc.id, tags={**tags, "Name": f"{name}-unused"}, opts=child
        )
        gateway = aws.ec2.InternetGateway(f"{name}-internet", vpc_id=vpc.id, tags={**tags, "Name": name}, opts=child)
        public_table = aws.ec2.RouteTable(
            f"{name}-public", vpc_id=vpc.id, tags={**tags, "Name": f"{name}-public"}, opts=child
        )
        private_table = aws.ec2.RouteTable(
            f"{name}-private", vpc_id=vpc.id, tags={**tags, "Name": f"{name}-private"}, opts=child
        )

        associations: list[aws.ec2.RouteTableAssociation] = []

        def subnet(
            kind: str, zone: str, block: str, table: aws.ec2.RouteTable, extra: dict[str, str]
        ) -> aws.ec2.Subnet:
            made = aws.ec2.Subnet(
                f"{name}-{kind}-{zone}",
                vpc_id=vpc.id,
                availability_zone=zone,
                cidr_block=block,
                map_public_ip_on_launch=False,
                tags={**tags, **extra, "Name": f"{name}-{kind}-{zone}"},
                opts=child,
            )
            associations.append(
                aws.ec2.RouteTableAssociation(
                    f"{name}-{kind}-{zone}", subnet_id=made.id, route_table_id=table.id, opts=child
                )
            )
            return made

        internal = {"kubernetes.io/role/internal-elb": "1"}
        external = {"kubernetes.io/role/elb": "1"}
        private = [subnet("private", s.zone, s.private, private_table, internal) for s in subnets]
        public = [subnet("public", s.zone, s.public, public_table, external) for s in subnets]
        control = [subnet("control-plane", s.zone, s.control_plane, private_table, {}) for s in subnets]

        address = aws.ec2.Eip(f"{name}-nat", domain="vpc", tags={**tags, "Name": f"{name}-nat"}, opts=child)
        # One NAT gateway: a second one costs $33 a month and guards a sleeping service against nothing.
        nat = aws.ec2.NatGateway(
            f"{name}-nat",
            allocation_id=address.id,
            subnet_id=public[0].id,
            tags={**tags, "Name": name},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[gateway]),
        )
        aws.ec2.Route(
            f"{name}-public",
            route_table_id=public_table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=child,
        )
        way_out = aws.ec2.Route(
            f"{name}-private",
            route_table_id=private_table.id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=nat.id,
            opts=child,
        )
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private_table.id],
            tags={**tags, "Name": f"{name}-s3"},
            opts=child,
        )

        # A node that starts before its way out exists never joins, so the ids wait for routes and associations.
        routed = [way_out.id, *(association.id for association in associations)]

        def ids(made: list[aws.ec2.Subnet]) -> pulumi.Output[list[str]]:
            return pulumi.Output.all(*(s.id for s in made), *routed).apply(lambda every: list(every[: len(made)]))

        self.vpc_id = vpc.id
        self.private_subnet_ids = ids(private)
        self.public_subnet_ids = ids(public)
        self.control_plane_subnet_ids = ids(control)
        self.private_cidrs = pulumi.Output.from_input([s.private for s in subnets])
        self.control_plane_cidrs = pulumi.Output.from_input([s.control_plane for s in subnets])
        self.register_outputs(
            {
                "vpcId": self.vpc_id,
                "privateSubnetIds": self.private_subnet_ids,
                "publicSubnetIds": self.public_subnet_ids,
                "controlPlaneSubnetIds": self.control_plane_subnet_ids,
                "privateCidrs": self.private_cidrs,
                "controlPlaneCidrs": self.control_plane_cidrs,
            }
        )

"""Route tables, their routes and what subnets they serve."""

import hashlib
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first, unless_gone
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, listed, picked, same

_DESTINATIONS = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}
_TARGETS = {
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "transitGatewayId": "TransitGatewayId",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
}
# In a table's own `routes` the destination has a shorter name.
_INLINE = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}


def _ours(route: dict[str, Any], names: dict[str, str]) -> Properties:
    return {ours: route[theirs] for ours, theirs in names.items() if route.get(theirs)}


class RouteTable(Ec2Type):
    """A table of routes, empty or with its routes inline."""

    token = "aws:ec2/routeTable:RouteTable"
    label = "EC2 Route Table"
    kind = "route-table"
    inputs: ClassVar[Shape] = {"vpcId": None, "routes": dict.fromkeys([*_INLINE, *_TARGETS]), "tags": None}
    required = ("vpcId",)
    computed = ("arn", "ownerId", "tagsAll")
    replace_on = frozenset({"vpcId"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        answer = clients.client("ec2").create_route_table(VpcId=inputs["vpcId"], **self._tags_at_creation(inputs))
        resource_id = str(answer["RouteTable"]["RouteTableId"])
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        ec2 = clients.client("ec2")
        before, after = listed(old, "routes"), listed(new, "routes")
        for route in before:
            if not any(same(route, other) for other in after):
                unless_gone(lambda route=route: ec2.delete_route(RouteTableId=resource_id, **picked(route, **_INLINE)))
        for route in after:
            if not any(same(route, other) for other in before):
                ec2.create_route(RouteTableId=resource_id, **picked(route, **_INLINE, **_TARGETS))

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = first(clients.client("ec2").describe_route_tables(RouteTableIds=[resource_id]), "RouteTables")
        if found is None:
            return None
        live = {**self._common(clients, resource_id, found), "vpcId": found["VpcId"]}
        # Routes that are resources of their own don't belong to the table.
        if "routes" in state:
            live["routes"] = [
                _ours(route, {**_INLINE, **_TARGETS})
                for route in listed(found, "Routes")
                if route.get("GatewayId") != "local" and not str(route.get("GatewayId", "")).startswith("vpce-")
            ]
        return live

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_route_table(RouteTableId=resource_id)


class Route(Ec2Type):
    """One route of a table."""

    token = "aws:ec2/route:Route"
    label = "EC2 Route"
    inputs: ClassVar[Shape] = dict.fromkeys(["routeTableId", *_DESTINATIONS, *_TARGETS])
    required = ("routeTableId",)
    computed = ("state", "origin")
    replace_on = frozenset({"routeTableId", *_DESTINATIONS})
    fixed_identity = True

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        faults: list[tuple[str, str]] = []
        for names in (_DESTINATIONS, _TARGETS):
            given = [name for name in names if name in inputs]
            if len(given) != 1:
                words = " and ".join(given) if given else "none"
                faults.append((given[0] if given else next(iter(names)), f"one of {', '.join(names)}: got {words}"))
        return faults

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, **_DESTINATIONS, **_TARGETS)
        clients.client("ec2").create_route(RouteTableId=inputs["routeTableId"], **names)
        destination = next(inputs[name] for name in _DESTINATIONS if name in inputs)
        digest = int(hashlib.sha256(str(destination).encode()).hexdigest()[:8], 16)
        return f"r-{inputs['routeTableId']}{digest}"

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        names = picked(new, **_DESTINATIONS, **_TARGETS)
        clients.client("ec2").replace_route(RouteTableId=new["routeTableId"], **names)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        if "routeTableId" not in state:
            raise AwsResourceError(
                f"EC2 Route ({resource_id}) can't be imported here: its id doesn't name the destination"
            )
        answer = clients.client("ec2").describe_route_tables(RouteTableIds=[state["routeTableId"]])
        table = first(answer, "RouteTables")
        wanted = picked(state, **_DESTINATIONS)
        for route in listed(table or {}, "Routes"):
            if all(route.get(key) == value for key, value in wanted.items()):
                targets: Properties = dict.fromkeys(_TARGETS)
                return {
                    **targets,
                    **_ours(route, {**_DESTINATIONS, **_TARGETS}),
                    "routeTableId": state["routeTableId"],
                    "state": route.get("State", "active"),
                    "origin": route.get("Origin", "CreateRoute"),
                }
        return None

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        destination = picked(state, **_DESTINATIONS)
        clients.client("ec2").delete_route(RouteTableId=state["routeTableId"], **destination)


class RouteTableAssociation(Ec2Type):
    """Which table a subnet uses."""

    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    label = "EC2 Route Table Association"
    inputs: ClassVar[Shape] = dict.fromkeys(("routeTableId", "subnetId"))
    required = ("routeTableId", "subnetId")
    replace_on = frozenset({"subnetId"})
    fixed_identity = True

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, routeTableId="RouteTableId", subnetId="SubnetId")
        return str(clients.client("ec2").associate_route_table(**names)["AssociationId"])

    def _found(self, clients: AwsClients, state: Properties) -> Any:
        # AWS gives a new association id when the table changes, so the subnet is what identifies it.
        filters = [{"Name": "association.subnet-id", "Values": [state["subnetId"]]}]
        table = first(clients.client("ec2").describe_route_tables(Filters=filters), "RouteTables")
        associations = listed(table or {}, "Associations")
        return next((one for one in associations if one.get("SubnetId") == state["subnetId"]), None)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        found = self._found(clients, new)
        clients.client("ec2").replace_route_table_association(
            AssociationId=found["RouteTableAssociationId"] if found else resource_id, RouteTableId=new["routeTableId"]
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, state)
        return {"routeTableId": found["RouteTableId"], "subnetId": found["SubnetId"]} if found else None

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        found = self._found(clients, state)
        if found is not None:
            clients.client("ec2").disassociate_route_table(AssociationId=found["RouteTableAssociationId"])

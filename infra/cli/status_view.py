"""How a status looks: as a table for people, as a mapping with stable keys for programs."""

import sys
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infra.jobs.discovery import Target
from infra.jobs.lane_state import lane_states
from infra.jobs.move import preferred_again
from infra.jobs.observation import DeploymentView, Observation, PodView, SlotView
from infra.jobs.state import State, StateKind
from serving.units import duration_text

_COLOURS = {
    StateKind.AWAKE: "green",
    StateKind.ASLEEP: "blue",
    StateKind.INCONSISTENT: "red",
    StateKind.UNKNOWN: "red",
}
# Wide enough for every cell on one line, so that a pipe gets one line for each fact.
_PIPE_WIDTH = 400


def status_mapping(target: Target, seen: Observation, state: State) -> dict[str, Any]:
    """Everything that `print_status` shows, as plain JSON; None is unknown or absent."""
    outputs = target.outputs
    return {
        "environment": outputs.environment,
        "region": outputs.region,
        "accountId": outputs.account_id,
        "cluster": outputs.cluster_name,
        "simulated": target.simulated,
        "at": _time(seen.at),
        "state": str(state.kind),
        "stage": str(state.stage) if state.stage else None,
        "why": state.why,
        "slot": state.slot,
        "remainingSeconds": None if state.remaining_s is None else round(state.remaining_s),
        "usdPerHourNow": seen.usd_per_hour,
        "asleepUsdPerDay": outputs.asleep_usd_per_day,
        "model": outputs.model,
        "servedModelName": outputs.served_model_name,
        "service": {
            "namespace": outputs.namespace,
            "name": outputs.service_name,
            "port": outputs.service_port,
            "access": outputs.access,
        },
        "replicas": [_lane(replica, one) for replica, one in lane_states(seen).items()],
        "slots": [_slot(view) for view in seen.slots],
        "deployments": [_deployment(view) for view in seen.deployments],
        "volumes": [
            {
                "id": one.volume_id,
                "zone": one.zone,
                "state": one.state,
                "attachedTo": one.attached_to,
                "attachment": one.attachment,
                "holderState": one.holder_state,
            }
            for one in seen.volumes
        ],
        "operation": None
        if seen.operation is None
        else {
            "goal": seen.operation.goal,
            "holder": seen.operation.holder,
            "renewedAt": _time(seen.operation.renewed_at),
        },
        "unknown": [{"what": one.what, "reason": one.reason} for one in seen.unknown],
    }


def print_status(target: Target, seen: Observation, state: State) -> None:
    """Print the status to stdout; colours and the terminal's width only on a terminal."""
    outputs = target.outputs
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    colour = _COLOURS.get(state.kind, "yellow")
    rest = f", about {duration_text(state.remaining_s)} to go" if state.remaining_s else ""
    where = f"{outputs.environment} in {outputs.region}, account {outputs.account_id}"
    console.print(f"[bold {colour}]{state}[/]{rest}  [dim]{escape(where)}[/dim]")
    for line in _why(seen, state):
        console.print(escape(line), soft_wrap=True)
    console.print(f"[bold]money[/]  {_now(seen)}; {_asleep(outputs.asleep_usd_per_day)}")
    if seen.operation is not None:
        console.print(f"[bold]job[/]    {escape(seen.operation.goal)} by {escape(seen.operation.holder)}")
    console.print()
    console.print(_slot_table(seen))
    console.print()
    console.print(_pod_table(seen))
    for line in _capacity_lines(target, seen):
        console.print(escape(line), soft_wrap=True)
    for view in seen.slots:
        if view.failures:
            last = view.failures[0]
            text = f"last refusal of {view.slot.name}, {_time(last.at)}: {last.message}"
            console.print(escape(text), soft_wrap=True)
    for one in seen.unknown:
        console.print(f"[yellow]unknown[/] {escape(one.what)}: {escape(one.reason)}", soft_wrap=True)


def _why(seen: Observation, state: State) -> list[str]:
    lanes = lane_states(seen)
    if len(lanes) < 2:
        return [state.why]
    return [f"replica {replica}: {one}; {one.why}" for replica, one in lanes.items()]


def _lane(replica: int, state: State) -> dict[str, Any]:
    stage = str(state.stage) if state.stage else None
    return {"replica": replica, "state": str(state.kind), "stage": stage, "why": state.why, "slot": state.slot}


def _capacity_lines(target: Target, seen: Observation) -> list[str]:
    """What is about to happen to capacity: notices, Capacity Blocks, sick node groups, a way back."""
    lines = [
        f"EC2 takes spot instance {one.instance_id} of {slot.name} back ({one.notice}): `dormouse move` goes on elsewhere"
        for slot, one in seen.notices
    ]
    lines += [f"{view.slot.name}: {view.block.words(seen.at)}" for view in seen.slots if view.block is not None]
    lines += [f"EKS on {view.slot.name}: {issue}" for view in seen.slots for issue in view.issues]
    lines += [
        f"weight volume {one.volume_id} hangs on {one.attached_to}, which is {one.holder_state}; the next wake frees it"
        for one in seen.volumes
        if one.is_stuck
    ]
    better = preferred_again(seen) if target.outputs.return_to_preferred else None
    return [*lines, f"{better[1]}: `dormouse move --to {better[0].name}`"] if better else lines


def _slot_table(seen: Observation) -> Table:
    table = _table("slot", "purchase", "zone", "node group", "nodes", "instance", "node", "per hour")
    for view in seen.slots:
        words = {True: "Ready", False: "not Ready", None: "not joined"}
        # One of several machines to a replica that ends and one that comes are both told.
        shown = view.instances[: max(1, view.slot.nodes)]
        instance = "\n".join(f"{one.instance_id} {one.state}" for one in shown) or "-"
        node = "\n".join(words[one.node_ready] for one in shown) or "-"
        table.add_row(
            view.slot.name,
            view.slot.purchase,
            f"{view.slot.zone} ({view.slot.zone_id})",
            view.status or "unknown",
            "unknown" if view.desired is None else str(view.desired),
            instance,
            node,
            "unknown" if view.slot.usd_per_hour is None else f"${view.slot.usd_per_hour:,.2f}",
        )
    return table


def _pod_table(seen: Observation) -> Table:
    table = _table("deployment", "replicas", "pod", "requests", "weight volume")
    for view in seen.deployments:
        volumes = [
            f"{one.volume_id} {one.state or 'unknown'}" + (f" at {one.attached_to}" if one.attached_to else "")
            for one in seen.volumes
            if any(one.volume_id in s.slot.volume_ids and s.slot.deployment_name == view.name for s in seen.slots)
        ]
        if any(s.slot.deployment_name == view.name and s.slot.streams_from_s3 for s in seen.slots):
            volumes = ["none: streams from S3"]
        pods = view.pods or ()
        shown = "\n".join(f"{pod.name} {_phase(pod)}" for pod in pods) or ("unknown" if view.pods is None else "-")
        requests = "\n".join(_requests(pod) for pod in pods) or "-"
        replicas = "unknown" if view.replicas is None else str(view.replicas)
        table.add_row(view.name, replicas, escape(shown), requests, "\n".join(volumes))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _phase(pod: PodView) -> str:
    return pod.phase if pod.accepting else f"{pod.phase}, not accepting"


def _requests(pod: PodView) -> str:
    if pod.requests is None:
        return "unknown" if pod.requests_unknown else "-"
    return f"{pod.requests.running} running, {pod.requests.waiting} waiting"


def _now(seen: Observation) -> str:
    if seen.usd_per_hour is None:
        return "unknown per hour now"
    return f"${seen.usd_per_hour:,.2f} an hour for GPU nodes now"


def _asleep(usd_per_day: float | None) -> str:
    return "asleep: unknown" if usd_per_day is None else f"asleep: ${usd_per_day:,.2f} a day"


def _slot(view: SlotView) -> dict[str, Any]:
    slot = view.slot
    last = view.failures[0] if view.failures else None
    return {
        "name": slot.name,
        "purchase": slot.purchase,
        "instanceType": slot.instance_type,
        "zone": slot.zone,
        "zoneId": slot.zone_id,
        "volumeId": slot.volume_id or None,
        "streamsFromS3": slot.streams_from_s3,
        "nodeGroup": slot.node_group_name,
        "nodeGroupStatus": view.status,
        "desired": view.desired,
        "usdPerHour": slot.usd_per_hour,
        "instances": [
            {
                "id": one.instance_id,
                "state": one.state,
                "lifecycle": one.lifecycle,
                "launchedAt": _time(one.launched_at),
                "node": one.node_name,
                "nodeReady": one.node_ready,
                "notice": one.notice,
                "cordoned": one.cordoned,
            }
            for one in view.instances
        ],
        "issues": list(view.issues),
        "block": None
        if view.block is None
        else {
            "reservationId": view.block.reservation_id,
            "state": view.block.state,
            "usableFrom": _time(view.block.usable_from),
            "usableUntil": _time(view.block.usable_until),
            "ends": _time(view.block.ends),
            "free": view.block.free,
            "instances": view.block.instances,
        },
        "lastRefusal": None
        if last is None
        else {"at": _time(last.at), "kind": str(last.kind), "message": last.message},
    }


def _deployment(view: DeploymentView) -> dict[str, Any]:
    pods = view.pods
    return {
        "name": view.name,
        "zone": view.zone,
        "replicas": view.replicas,
        "state": view.state or None,
        "reason": view.reason or None,
        "changedAt": view.changed_at or None,
        "pods": None
        if pods is None
        else [
            {
                "name": pod.name,
                "phase": pod.phase,
                "reason": pod.reason or None,
                "node": pod.node_name,
                "since": _time(pod.since),
                "accepting": pod.accepting,
                "restarts": pod.restarts,
                "requestsRunning": pod.requests.running if pod.requests else None,
                "requestsWaiting": pod.requests.waiting if pod.requests else None,
                "requestsUnknown": pod.requests_unknown or None,
            }
            for pod in pods
        ],
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")

"""Weight volumes made fast for a wake and cheap again for sleep, where the stack says so; a failure is only a note."""

from collections.abc import Callable, Iterable

from botocore.exceptions import BotoCoreError, ClientError

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.observe import reason_of
from infra.jobs.operation import Operation
from infra.jobs.weights.throughput import Change, Outcome, lower_after, raise_for_wake
from infra.jobs.weights.volumes import read_volume
from infra.outputs import Slot, StackOutputs
from serving.errors import DormouseError


def raise_volumes(operation: Operation, slot: Slot) -> None:
    """Raise the volumes that a wake of `slot` reads; a wake is never stopped for it, and a slower one is still one."""
    if slot.loads_from_s3:
        return
    outputs = operation.outputs
    if outputs.volume_mib_per_s == outputs.volume_asleep_mib_per_s:
        _tell_slow(operation, slot)
        return
    _change(operation, slot.volume_ids, raise_for_wake, "the load takes longer")


def lower_volumes(operation: Operation, volume_ids: Iterable[str] | None = None) -> None:
    """Lower these volumes, or all of the stack's, for sleep; what is low already costs one look."""
    outputs = operation.outputs
    if outputs.volume_mib_per_s == outputs.volume_asleep_mib_per_s:
        return
    every = dict.fromkeys(one for slot in outputs.slots for one in slot.volume_ids)
    left = "it costs its awake rate until `dormouse hibernate` is run again later"
    _change(operation, every if volume_ids is None else volume_ids, lower_after, left)


def _change(
    operation: Operation,
    volume_ids: Iterable[str],
    change: Callable[[StackOutputs, Clients, Clock, str], Change | None],
    otherwise: str,
) -> None:
    for volume_id in volume_ids:
        try:
            made = change(operation.outputs, operation.clients, operation.clock, volume_id)
        except (ClientError, BotoCoreError, DormouseError) as error:
            operation.journal.note(f"the speed of {volume_id} stays as it is, so {otherwise}: {reason_of(error)}")
            continue
        if made is None or made.outcome is Outcome.ALREADY:
            continue
        if made.changed:
            operation.journal.say("volume", made.words)
        else:
            operation.journal.note(f"{made.words}: it stays as it is, and {otherwise}")


def _tell_slow(operation: Operation, slot: Slot) -> None:
    """Say where a volume is slower than the configuration: somebody lowered it, and nothing raises it by itself."""
    wanted = operation.outputs.volume_mib_per_s
    for volume_id in slot.volume_ids if wanted else ():
        try:
            has = read_volume(operation.clients, volume_id).throughput_mib_per_s
        except (ClientError, BotoCoreError, DormouseError):
            # Whatever is wrong with the volume itself is told where it is needed.
            continue
        if has < wanted:
            operation.journal.note(
                f"{volume_id} has {has} MiB/s where the configuration says {wanted}, so the load takes longer: "
                f"`dormouse weights speed up {wanted}` raises it"
            )

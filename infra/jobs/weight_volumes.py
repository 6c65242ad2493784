"""Weight volumes that hang on a machine that is gone: waited for with the reason, freed by force where that is safe.

The CSI driver frees such a volume itself six minutes after the node went. A volume is forced off an instance only
where EC2 says that the instance is terminated, or has forgotten it: nothing can be writing to it then.
"""

from botocore.exceptions import ClientError

from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.observation import Observation, VolumeView
from infra.jobs.operation import Operation
from serving.errors import JobError
from serving.units import duration_text

CSI_FORCE_DETACH_S = 360.0
"""How long Kubernetes waits before it forces a volume off a node that went uncleanly (CSI driver's documentation)."""

_VOLUME_S = 600.0
_POLL_S = 5.0
# Already free, or freed by somebody else meanwhile.
_FREE_CODES = ("IncorrectState", "InvalidAttachment.NotFound")


def free_if_stuck(operation: Operation, volume: VolumeView) -> bool:
    """Force the volume off a terminated instance; False where it is not stuck, or where EC2 refuses."""
    if not volume.is_stuck:
        return False
    operation.journal.note(
        f"weight volume {volume.volume_id} still hangs on {volume.attached_to}, which is {volume.holder_state}; "
        "detaching it by force"
    )
    try:
        operation.clients.ec2.detach_volume(VolumeId=volume.volume_id, InstanceId=volume.attached_to, Force=True)
    except ClientError as error:
        if error_code(error) in _FREE_CODES:
            return True
        operation.journal.note(
            f"EC2 does not free {volume.volume_id} ({error_code(error)}: {error_message(error)}); Kubernetes does so "
            f"{duration_text(CSI_FORCE_DETACH_S)} after the node went"
        )
        return False
    return True


def await_detached(operation: Operation, volume_ids: tuple[str, ...]) -> Observation:
    """Wait until these weight volumes are detached; raises JobError where one is not, or is gone."""
    if not volume_ids:
        # A slot that streams from S3 has nothing to wait for.
        return operation.observe()
    began_s = operation.clock.monotonic_s()
    forced: set[str] = set()
    while True:
        seen = operation.observe()
        volumes = [volume for volume in seen.volumes if volume.volume_id in volume_ids]
        missing = [volume for volume in volumes if volume.state == "missing"]
        if missing:
            raise JobError(
                f"no node is paid for any more, but weight volume {missing[0].volume_id} in {missing[0].zone} does "
                "not exist: the next wake cannot load; `pulumi up` makes a new one, which has to be filled"
            )
        held = [volume for volume in volumes if volume.state != "available"]
        if not held:
            every = "every weight volume is" if len(volumes) == len(seen.volumes) else f"{volumes[0].volume_id} is"
            operation.journal.say("volume", f"{every} available")
            return seen
        volume = held[0]
        if volume.is_stuck and volume.volume_id not in forced:
            forced.add(volume.volume_id)
            free_if_stuck(operation, volume)
        if operation.clock.monotonic_s() - began_s > _VOLUME_S:
            if volume.state is None:
                why = next((one.reason for one in seen.unknown if volume.volume_id in one.what), "not readable")
                raise JobError(f"no node is paid for any more, but {volume.volume_id} could not be checked: {why}")
            raise JobError(
                f"no node is paid for any more, but weight volume {volume.volume_id} is still {volume.state} at "
                f"{volume.attached_to}: the next node could not mount it; `aws ec2 detach-volume --volume-id "
                f"{volume.volume_id}` frees it"
            )
        operation.journal.say("volume", f"waiting for weight volume {volume.volume_id} to be detached")
        operation.pause(_POLL_S)


def holder_words(volume: VolumeView | None, own: str | None) -> str:
    """Why a pod may be waiting for its volume: who else holds it; empty where nobody does.

    - `own`: the id of the instance that the pod is to run on.
    """
    if volume is None or volume.attached_to in (None, own):
        return ""
    state = f", which is {volume.holder_state}" if volume.holder_state else ""
    return (
        f"weight volume {volume.volume_id} is still {volume.attachment or volume.state} at {volume.attached_to}{state}"
    )

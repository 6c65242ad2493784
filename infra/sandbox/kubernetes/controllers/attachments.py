"""Volumes follow pods: attached to the node of the pod that mounts them, detached when no pod there needs them."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.sandbox.kubernetes.controllers.volumes import claims_of, volume_of_claim
from infra.sandbox.kubernetes.documents import child
from infra.sandbox.kubernetes.events import EventRecorder
from infra.sandbox.kubernetes.resource_types import NODES, PODS, VOLUME_ATTACHMENTS
from infra.sandbox.kubernetes.store import Store

Object = dict[str, Any]
VolumeCall = Callable[[str, Object], None]

_FIRST_RETRY_S = 5.0
_LONGEST_RETRY_S = 120.0


@dataclass
class _Attachment:
    """One volume on one node: since when it is attached, or when the next attempt is due."""

    volume_id: str
    node: Object
    attached_at: datetime | None = None
    retry_at: datetime | None = None
    failures: int = 0


class AttachmentController:
    """Attaches and detaches EBS volumes, and keeps the VolumeAttachment objects.

    - `attach`, `detach`: called with a volume id and the Node object; any exception is a failure, whose words go into
      the pod's events, and the call is repeated with growing waits.
    - `attach_s`: how long a volume takes from the call until the node sees it, in simulated seconds.
    """

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime],
        events: EventRecorder,
        attach: VolumeCall | None,
        detach: VolumeCall | None,
        attach_s: float,
    ) -> None:
        """Attach nothing yet."""
        self._store = store
        self._now = now
        self._events = events
        self._attach = attach
        self._detach = detach
        self._attach_s = timedelta(seconds=attach_s)
        self._attachments: dict[tuple[str, str], _Attachment] = {}

    def attached_at(self, pod: Object) -> datetime | None:
        """When the last of a pod's volumes was there, or None while one is missing; the earliest moment without any."""
        latest = datetime.min.replace(tzinfo=self._now().tzinfo)
        for volume in self._volumes(pod):
            attachment = self._attachments.get((volume["metadata"]["name"], pod["spec"]["nodeName"]))
            if attachment is None or attachment.attached_at is None:
                return None
            latest = max(latest, attachment.attached_at + self._attach_s)
        return latest

    def reconcile(self) -> datetime | None:
        """Detach what nobody needs, then attach what somebody waits for."""
        wanted: dict[tuple[str, str], tuple[Object, Object]] = {}
        for pod in self._store.items(PODS):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                for volume in self._volumes(pod):
                    wanted.setdefault((volume["metadata"]["name"], pod["spec"]["nodeName"]), (volume, pod))
        due: list[datetime] = []
        for at in [at for at in self._attachments if at not in wanted]:
            self._let_go(at, due)
        for at, (volume, pod) in wanted.items():
            self._bring(at, volume, pod, due)
        return min(due, default=None)

    def _volumes(self, pod: Object) -> list[Object]:
        """The pod's EBS volumes."""
        namespace: str = pod["metadata"]["namespace"]
        volumes = [volume_of_claim(self._store, namespace, name) for name in claims_of(pod)]
        return [volume for volume in volumes if volume is not None and _volume_id(volume)]

    def _bring(self, at: tuple[str, str], volume: Object, pod: Object, due: list[datetime]) -> None:
        now = self._now()
        name, node_name = at
        node = self._store.find(NODES, "", node_name)
        present = self._attachments.get(at)
        if (present and present.attached_at) or node is None:
            return
        if present and present.retry_at and now < present.retry_at:
            due.append(present.retry_at)
            return
        elsewhere = [
            key for key, other in self._attachments.items() if key[0] == name and key != at and other.attached_at
        ]
        shared = "ReadWriteMany" in volume["spec"]["accessModes"] or "ReadOnlyMany" in volume["spec"]["accessModes"]
        if elsewhere and not shared:
            words = (
                f'Multi-Attach error for volume "{name}" Volume is already exclusively attached to one node and '
                "can't be attached to another"
            )
            self._events.record(pod, "Warning", "FailedAttachVolume", words, "attachdetach-controller")
            due.append(now + timedelta(seconds=_FIRST_RETRY_S))
            return
        attachment = self._attachments.setdefault(at, _Attachment(_volume_id(volume), node))
        attachment.node = node
        try:
            if self._attach is not None:
                self._attach(attachment.volume_id, node)
        except Exception as error:  # noqa: BLE001 - whatever the cloud says goes into the pod's events
            wait_s = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2**attachment.failures)
            attachment.failures += 1
            attachment.retry_at = now + timedelta(seconds=wait_s)
            due.append(attachment.retry_at)
            words = (
                f'AttachVolume.Attach failed for volume "{name}" : rpc error: code = Internal desc = Could not attach '
                f'volume "{attachment.volume_id}" to node "{_instance_id(node)}": {error}'
            )
            self._events.record(pod, "Warning", "FailedAttachVolume", words, "attachdetach-controller")
            return
        attachment.attached_at = now
        body: Object = {
            "metadata": {"name": _attachment_name(at)},
            "spec": {
                "attacher": volume["spec"]["csi"]["driver"],
                "nodeName": node_name,
                "source": {"persistentVolumeName": name},
            },
            "status": {"attached": True},
        }
        if self._store.find(VOLUME_ATTACHMENTS, "", body["metadata"]["name"]) is None:
            self._store.create(VOLUME_ATTACHMENTS, "", body, checked=False)
        words = f'AttachVolume.Attach succeeded for volume "{name}"'
        self._events.record(pod, "Normal", "SuccessfulAttachVolume", words, "attachdetach-controller")

    def _let_go(self, at: tuple[str, str], due: list[datetime]) -> None:
        attachment = self._attachments[at]
        now = self._now()
        if attachment.attached_at is not None and self._detach is not None:
            if attachment.retry_at and now < attachment.retry_at:
                due.append(attachment.retry_at)
                return
            gone = self._store.find(NODES, "", at[1]) is None
            try:
                self._detach(attachment.volume_id, attachment.node)
            except Exception:  # noqa: BLE001 - a machine that is gone has let go of its volumes already
                if not gone:
                    attachment.retry_at = now + timedelta(seconds=_FIRST_RETRY_S)
                    due.append(attachment.retry_at)
                    return
        del self._attachments[at]
        self._store.remove(VOLUME_ATTACHMENTS, "", _attachment_name(at))


def _volume_id(volume: Object) -> str:
    source: Object = child(volume["spec"], "csi")
    return source.get("volumeHandle", "") if source.get("driver") == "ebs.csi.aws.com" else ""


def _instance_id(node: Object) -> str:
    return str(node["spec"].get("providerID", node["metadata"]["name"])).rsplit("/", 1)[-1]


def _attachment_name(at: tuple[str, str]) -> str:
    return "csi-" + hashlib.sha256("/".join(at).encode()).hexdigest()

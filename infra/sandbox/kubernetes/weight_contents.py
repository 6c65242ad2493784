"""What is on the simulated weight volumes, and what a server's `weights-check` says of it; no byte lies anywhere."""

import json
from collections.abc import Callable
from typing import Any

from infra.sandbox.kubernetes.controllers.volumes import volume_of_claim
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.hydrator_pages import is_hydrator, last_words
from infra.sandbox.kubernetes.store import Store
from serving.weights.marker import CHECK_CONTAINER, UNPROVEN_OUTCOME, UNPROVEN_STATUS, refusal_text

Object = dict[str, Any]
VolumeOrigin = Callable[[str], str | None]
"""The volume that a volume was copied from, by ids; None where it was made empty."""

_AGAIN = "dormouse weights hydrate --again"
# Links of copies of copies that are followed; real ones are one or two long.
_LONGEST_LINE = 8


class WeightContents:
    """The weights on each volume: as a Job has filled them, or, where nobody has said, as `full` tells.

    - `full`: whether a volume that no Job has filled counts as holding what its server expects.
    - `origin`: asked for volumes that nothing is known of; None takes every one as made by itself.
    """

    def __init__(self, store: Store, full: bool, origin: VolumeOrigin | None = None) -> None:
        """Know of no volume yet."""
        self._store = store
        self.full = full
        self._origin = origin
        self._filled: dict[str, tuple[str, str]] = {}
        self._emptied: set[str] = set()

    def empty(self, volume_id: str) -> None:
        """Take everything off the volume."""
        self._filled.pop(volume_id, None)
        self._emptied.add(volume_id)

    def end_job(self, pod: Object) -> tuple[int, str]:
        """The exit status and the last words of a Job's pod; a hydrator's leaves its weights on the volume it mounts."""
        main: Object = pod["spec"]["containers"][0]
        volume_id = self._volume_id(pod, main)
        if not is_hydrator(pod):
            return 0, ""
        values = {one["name"]: one.get("value", "") for one in children(main, "env")}
        if main.get("args") == ["verify"]:
            if volume_id is not None and not self._holds_any(volume_id):
                folder = values.get("DORMOUSE_TARGET", "")
                words = f"simulated: {folder} has no manifest to compare with. Run: dormouse weights hydrate"
                return UNPROVEN_STATUS, json.dumps({"outcome": UNPROVEN_OUTCOME, "message": words})
        elif volume_id is not None:
            self._filled[volume_id] = (values.get("DORMOUSE_SOURCE", ""), values.get("DORMOUSE_REVISION", ""))
            self._emptied.discard(volume_id)
        return 0, last_words(pod)

    def _holds_any(self, volume_id: str) -> bool:
        return self._found(volume_id) is not None or (self.full and volume_id not in self._emptied)

    def refusal(self, pod: Object) -> str:
        """What the pod's weights-check says as it ends with 1; empty where it lets the pod pass, or there is none."""
        check = next((one for one in children(pod["spec"], "initContainers") if one["name"] == CHECK_CONTAINER), None)
        volume_id = None if check is None else self._volume_id(pod, check)
        if check is None or volume_id is None:
            return ""
        folder, source, revision = (*children(check, "command")[-3:], "", "", "")[:3]
        found = self._found(volume_id)
        if found is None:
            return "" if self._holds_any(volume_id) else refusal_text(f"{folder} is not on the volume")
        if source and found[0] != source:
            return refusal_text(f"{folder} holds {found[0]}, not {source}", _AGAIN)
        if revision and found[1] != revision:
            return refusal_text(f"{folder} holds revision {found[1] or 'simulated'}, not {revision}", _AGAIN)
        return ""

    def _found(self, volume_id: str) -> tuple[str, str] | None:
        """Source and revision on the volume, or on what it was copied from."""
        at: str | None = volume_id
        for _ in range(_LONGEST_LINE):
            if at is None or at in self._filled or at in self._emptied:
                break
            at = self._origin(at) if self._origin is not None else None
        return None if at is None else self._filled.get(at)

    def _volume_id(self, pod: Object, container: Object) -> str | None:
        """The EBS volume behind the first claim that the container mounts."""
        mounted = {mount["name"] for mount in children(container, "volumeMounts")}
        for volume in children(pod["spec"], "volumes"):
            if volume["name"] in mounted and "persistentVolumeClaim" in volume:
                claim: str = volume["persistentVolumeClaim"]["claimName"]
                bound = volume_of_claim(self._store, pod["metadata"]["namespace"], claim)
                handle: object = child(child(bound or {}, "spec"), "csi").get("volumeHandle")
                return str(handle) if handle else None
        return None

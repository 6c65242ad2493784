"""Copies a verified folder to a prefix in S3: parts go on where a killed run stopped, the marker goes last."""

import contextlib
import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, cast

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.s3.client import S3Client, UploadedPart
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Volume, write_whole
from serving.weights.manifest import ManifestFile
from serving.weights.marker import MANIFEST_PATH, MARKER_PATH, STATE_FOLDER
from serving.weights.sources import WeightSource

_MOST_PARTS = 10_000  # of one multipart upload (S3 user guide)
_MOST_AT_ONCE = 8  # each holds one part in memory
_UPLOADS_PATH = f"{STATE_FOLDER}/uploads.json"


@dataclass(frozen=True)
class Copied:
    """What a copy did: files that were there already, files sent, bytes sent."""

    files_there: int
    files_sent: int
    sent_bytes: int


class S3Copy:
    """The copy of `volume` below `destination`."""

    def __init__(
        self,
        volume: Volume,
        destination: WeightSource,
        client: S3Client,
        transport: Transport,
        progress: Progress,
        part_bytes: int,
    ) -> None:
        """Send nothing yet."""
        self._volume = volume
        self._destination = destination
        self._client = client
        self._transport = transport
        self._progress = progress
        self._part_bytes = part_bytes
        self._uploads = _Uploads(volume.target / _UPLOADS_PATH)
        self._sent_bytes = 0
        self._lock = Lock()

    def run(self, concurrency: int) -> Copied:
        """Make the copy whole; raises HydrateError."""
        marker, manifest = self._volume.marker(), self._volume.manifest()
        if marker is None or manifest is None:
            raise HydrateError(
                f"{self._volume.target} is not verified, so it is not copied. Run `dormouse weights hydrate` first"
            )
        bucket = self._destination.bucket
        there = {found.key: found.size_bytes for found in self._client.objects(bucket, self._key(""))}
        whole = all(there.get(self._key(file.path)) == file.size_bytes for file in manifest.files)
        if whole and self._client.text(bucket, self._key(MARKER_PATH)) == marker.text():
            return Copied(len(manifest.files), 0, 0)
        # An empty marker: what is below the prefix is about to change, and no reader takes it for whole meanwhile.
        self._client.put(bucket, self._key(MARKER_PATH), b"")
        self._progress.stage(f"copying to {self._destination}", manifest.total_bytes, len(manifest.files))
        with ThreadPoolExecutor(min(concurrency, _MOST_AT_ONCE)) as pool:
            largest_first = sorted(manifest.files, key=lambda file: -file.size_bytes)
            sizes = [there.get(self._key(file.path)) for file in largest_first]
            sent = list(pool.map(self._send, largest_first, sizes))
        self._client.put(bucket, self._key(MANIFEST_PATH), manifest.text().encode())
        self._client.put(bucket, self._key(MARKER_PATH), marker.text().encode())
        return Copied(len(sent) - sum(sent), sum(sent), self._sent_bytes)

    def _send(self, file: ManifestFile, there_bytes: int | None) -> bool:
        """Whether the file had to be sent."""
        self._transport.check_stop()
        bucket, key = self._destination.bucket, self._key(file.path)
        if there_bytes == file.size_bytes:
            found = self._client.head(bucket, key)
            if found is not None and found.sha256 == file.sha256:
                self._progress.stored(file.path, file.size_bytes)
                self._progress.finished(file.path)
                return False
        source = self._volume.file_path(file.path)
        if file.size_bytes <= self._part_bytes:
            self._client.put(bucket, key, source.read_bytes(), file.sha256)
            self._count(file.path, file.size_bytes, file.size_bytes)
        else:
            self._send_parts(file, bucket, key, source)
        self._progress.finished(file.path)
        return True

    def _send_parts(self, file: ManifestFile, bucket: str, key: str, source: Path) -> None:
        part_bytes = max(self._part_bytes, math.ceil(file.size_bytes / _MOST_PARTS))
        place = f"s3://{bucket}/{key}"
        upload_id, parts = self._resumed(file, bucket, key, place, part_bytes)
        if not upload_id:
            upload_id = self._client.begin_upload(bucket, key, file.sha256)
            self._uploads.keep(place, {"id": upload_id, "sha256": file.sha256, "part_bytes": part_bytes})
        there = sum(part.size_bytes for part in parts.values())
        self._progress.stored(file.path, there)
        with source.open("rb") as disk:
            for number in range(1, math.ceil(file.size_bytes / part_bytes) + 1):
                start = (number - 1) * part_bytes
                length = min(part_bytes, file.size_bytes - start)
                if number in parts and parts[number].size_bytes == length:
                    continue
                self._transport.check_stop()
                disk.seek(start)
                parts[number] = self._client.put_part(bucket, key, upload_id, number, disk.read(length))
                there += length
                self._count(file.path, there, length)
        self._client.finish_upload(bucket, key, upload_id, parts, file.sha256)
        self._uploads.forget(place)

    def _resumed(
        self, file: ManifestFile, bucket: str, key: str, place: str, part_bytes: int
    ) -> tuple[str, dict[int, UploadedPart]]:
        """The upload that an earlier run began of the same bytes; "" where there is none."""
        held = self._uploads.held(place)
        if held is None:
            return "", {}
        if (held["sha256"], held["part_bytes"]) != (file.sha256, part_bytes):
            self._client.abort_upload(bucket, key, str(held["id"]))
            return "", {}
        parts = self._client.parts(bucket, key, str(held["id"]))
        return ("", {}) if parts is None else (str(held["id"]), parts)

    def _count(self, path: str, there_bytes: int, sent_bytes: int) -> None:
        with self._lock:
            self._sent_bytes += sent_bytes
        self._progress.stored(path, there_bytes)

    def _key(self, path: str) -> str:
        return f"{self._destination.prefix}/{path}" if self._destination.prefix else path


class _Uploads:
    """Which multipart uploads are under way, on the volume, so that a later run finds them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._held: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(OSError, ValueError):
            self._held = cast("dict[str, dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))

    def held(self, place: str) -> dict[str, Any] | None:
        with self._lock:
            return self._held.get(place)

    def keep(self, place: str, entry: dict[str, Any]) -> None:
        with self._lock:
            self._held[place] = entry
            write_whole(self._path, json.dumps(self._held))

    def forget(self, place: str) -> None:
        with self._lock:
            self._held.pop(place, None)
            write_whole(self._path, json.dumps(self._held))

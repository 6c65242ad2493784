"""What the hydrator keeps in a model's folder beside the files: lock, listing, parts, journal, manifest, marker.

Everything is written whole beside its place, made safe on disk and then renamed, so that a kill at any line leaves the
old or the new. The journal names each finished file with the time stamp it has on disk: a later run trusts a file that
still has it and reads no weights again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from components.programs.hydrator.faults import BusyError
from components.programs.hydrator.listing import Listing, parse_listing
from serving.weights.manifest import Manifest, ManifestError, Marker, parse_manifest, parse_marker
from serving.weights.marker import LOCK_PATH, MANIFEST_PATH, MARKER_PATH, STATE_FOLDER


@dataclass(frozen=True)
class Finished:
    """A file that was proven: its size, SHA-256 and Git blob SHA-1 ("" where not known), and its time stamp then."""

    path: str
    size_bytes: int
    sha256: str
    git_sha1: str
    modified_ns: int


class Volume:
    """A model's folder on the volume."""

    def __init__(self, target: Path) -> None:
        """Use `target`; nothing is made before `prepare`."""
        self.target = target
        self._state = target / STATE_FOLDER
        self._parts = self._state / "parts"
        self._journal = self._state / "finished.jsonl"
        self._listing = self._state / "listing.json"

    def prepare(self) -> None:
        """Make the folders."""
        self._parts.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder alone; raises BusyError naming who holds it. The kernel lets go when a holder dies."""
        with (self.target / LOCK_PATH).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as held:
                file.seek(0)
                raise BusyError(
                    f"another hydrator works on {self.target} ({file.read().strip() or 'it has not said which'}). "
                    "Wait for it, or delete its Job; this one changes nothing"
                ) from held
            file.truncate(0)
            file.write(f"host {os.uname().nodename}, process {os.getpid()}, since {utc_now()}\n")
            file.flush()
            yield

    def part_path(self, path: str) -> Path:
        """Where an unfinished file grows."""
        return self._parts / f"{hashlib.sha256(path.encode()).hexdigest()[:16]}.part"

    def file_path(self, path: str) -> Path:
        """Where a finished file stands."""
        return self.target / path

    def listing(self) -> Listing | None:
        """The listing that an earlier run fixed."""
        text = _read(self._listing)
        return None if text is None else parse_listing(text)

    def keep_listing(self, listing: Listing) -> None:
        """Fix what is fetched, over restarts."""
        write_whole(self._listing, listing.text())

    def manifest(self) -> Manifest | None:
        """The manifest; None where there is none or it is damaged."""
        text = _read(self.target / MANIFEST_PATH)
        if text is None:
            return None
        with contextlib.suppress(ManifestError):
            return parse_manifest(text)
        return None

    def marker(self) -> Marker | None:
        """The marker, where it belongs to the manifest."""
        text, manifest = _read(self.target / MARKER_PATH), self.manifest()
        if text is None or manifest is None:
            return None
        with contextlib.suppress(ManifestError):
            marker = parse_marker(text)
            return marker if marker.manifest_sha256 == manifest.digest else None
        return None

    def keep_manifest(self, manifest: Manifest) -> None:
        """Write the manifest."""
        write_whole(self.target / MANIFEST_PATH, manifest.text())

    def mark(self, marker: Marker) -> None:
        """Write the marker: the last thing that happens."""
        write_whole(self.target / MARKER_PATH, marker.text())

    def unmark(self) -> None:
        """Take the marker away, so that no server starts on what is about to change."""
        with contextlib.suppress(FileNotFoundError):
            (self.target / MARKER_PATH).unlink()
            sync_folder(self._state)

    def finished(self) -> dict[str, Finished]:
        """The files of the journal that still are what they were when they were proven."""
        found: dict[str, Finished] = {}
        for line in (_read(self._journal) or "").splitlines():
            with contextlib.suppress(ValueError, TypeError):  # the last line of a killed run may be cut off
                entry = Finished(**cast("dict[str, Any]", json.loads(line)))
                found[entry.path] = entry
        return {path: entry for path, entry in found.items() if self._unchanged(entry)}

    def note_finished(self, entry: Finished) -> None:
        """Add a line to the journal; safe on disk before it returns. A line that a kill cut off is ended first."""
        with self._journal.open("a+b") as file:
            if file.tell() and _last_byte(file) != b"\n":
                file.write(b"\n")
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def forget(self, path: str) -> None:
        """Delete a file: the journal no longer counts it."""
        with contextlib.suppress(FileNotFoundError):
            self.file_path(path).unlink()

    def discard_part(self, path: str) -> None:
        """Delete what is there of an unfinished file."""
        part = self.part_path(path)
        for file in (part, part.with_suffix(".json")):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()

    def part_bytes(self, path: str) -> int:
        """Bytes that an unfinished file takes."""
        try:
            return self.part_path(path).stat().st_size
        except FileNotFoundError:
            return 0

    def keep_only_parts_of(self, paths: set[str]) -> None:
        """Delete parts of files that nobody wants any more."""
        wanted = {self.part_path(path).stem for path in paths}
        for file in self._parts.iterdir():
            if file.stem not in wanted:
                file.unlink()

    def free_bytes(self) -> int:
        """What the volume can still take."""
        room = os.statvfs(self.target)
        return room.f_bavail * room.f_frsize

    def _unchanged(self, entry: Finished) -> bool:
        try:
            there = self.file_path(entry.path).stat()
        except OSError:
            return False
        return (there.st_size, there.st_mtime_ns) == (entry.size_bytes, entry.modified_ns)


def write_whole(path: Path, text: str, *, safe: bool = True) -> None:
    """Put `text` at `path` in one step; `safe`: on disk before this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        if safe:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
    if safe:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` safe on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def utc_now() -> str:
    """Now, such as `2026-12-01T03:45:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _last_byte(file: Any) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)

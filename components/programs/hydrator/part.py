"""One file while it grows on disk: bytes, running hashes, and checkpoints from which a killed run goes on.

A checkpoint says how many bytes are safe on disk, and in which state the SHA-256 was there. What was written after it
is taken up too if the machine has not been started anew since, for then the kernel still has it; it is read again to go on
with the hash. After a power loss the file may end in zeros, so it is cut off at the checkpoint.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Self, cast

from components.programs.hydrator.faults import NO_ROOM, HydrateError, WrongHashError, disk_full
from components.programs.hydrator.running_hash import RunningHash, new_sha256, resume_sha256
from components.programs.hydrator.volume import Finished, Volume, sync_folder, write_whole
from serving.weights.file_set import RepositoryFile
from serving.weights.recognise import TAIL_BYTES, recognise

_BLOCK_BYTES = 2**20
_HEAD_BYTES = 2**16
_MOST_HEAD_BYTES = 2**24


class Part:
    """The growing file. `size_bytes`: what is there; `etag`: of the answer it came from; `reread_bytes`: hashed anew."""

    def __init__(self, volume: Volume, file: RepositoryFile, checkpoint_bytes: int) -> None:
        """Take up what an earlier run left of `file`, or begin."""
        self.file = file
        self.etag = ""
        self.size_bytes = 0
        self.reread_bytes = 0
        self._volume = volume
        self._checkpoint_bytes = checkpoint_bytes
        self._path = volume.part_path(file.path)
        self._note = self._path.with_suffix(".json")
        self._safe_bytes = 0
        self._sha256: RunningHash = new_sha256()
        self._sha1 = self._blob_sha1()
        safe_bytes, state = self._left_behind()
        self._disk = self._path.open("r+b", buffering=0) if self._path.exists() else self._path.open("x+b", buffering=0)
        self._take_up(safe_bytes, state)

    def __enter__(self) -> Self:
        """Nothing more."""
        return self

    def __exit__(self, *_: object) -> None:
        """Make safe what is there, if it still is there, and close."""
        with contextlib.suppress(OSError, HydrateError):
            if self._path.exists() and self.size_bytes > self._safe_bytes:
                self.checkpoint()
        self._disk.close()

    @property
    def missing_bytes(self) -> int:
        """What is still to come."""
        return self.file.size_bytes - self.size_bytes

    def append(self, data: bytes) -> None:
        """Add `data`; raises DiskFullError with nothing of it counted."""
        try:
            view = memoryview(data)
            while view:
                view = view[self._disk.write(view) or 0 :]
        except OSError as failed:
            with contextlib.suppress(OSError):
                self._disk.truncate(self.size_bytes)
                self._disk.seek(self.size_bytes)
            raise self._in_words(failed) from failed
        self._hash(data)
        self.size_bytes += len(data)
        if self.size_bytes - self._safe_bytes >= self._checkpoint_bytes:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Make safe what is there."""
        try:
            os.fdatasync(self._disk.fileno())
            self._write_note()
        except OSError as failed:
            raise self._in_words(failed) from failed

    def start_over(self) -> None:
        """Throw away what is there."""
        self.size_bytes = 0
        self.etag = ""
        self._sha256 = new_sha256()
        self._sha1 = self._blob_sha1()
        try:
            self._disk.truncate(0)
            self._disk.seek(0)
            self._write_note()
        except OSError as failed:
            raise self._in_words(failed) from failed

    def finish(self) -> Finished:
        """Prove the whole file and give it its name; raises WrongHashError saying what it looks like instead."""
        sha256, git_sha1 = self._sha256.hexdigest(), self._sha1.hexdigest() if self._sha1 else ""
        wanted = self.file.sha256 or self.file.git_sha1
        if (self.file.sha256 and sha256 != self.file.sha256) or (self.file.git_sha1 and git_sha1 != self.file.git_sha1):
            looks = self.looks_like()
            raise WrongHashError(
                f"{'SHA-256' if self.file.sha256 else 'Git blob SHA-1'} is {sha256 if self.file.sha256 else git_sha1}, "
                f"the source states {wanted}" + (f"; it is {looks}" if looks else "")
            )
        try:
            os.fsync(self._disk.fileno())
            place = self._volume.file_path(self.file.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            self._path.replace(place)
            sync_folder(place.parent)
            entry = Finished(self.file.path, self.size_bytes, sha256, git_sha1, place.stat().st_mtime_ns)
            self._volume.note_finished(entry)
        except OSError as failed:
            raise self._in_words(failed) from failed
        self._volume.discard_part(self.file.path)
        return entry

    def looks_like(self) -> str:
        """In words what the file on disk is instead of the right one; "" where nothing is to be seen."""
        return looks_like(self._path, self.file)

    def _left_behind(self) -> tuple[int, str]:
        """How many bytes may be taken up, and the hash's state after some of them; what cannot be is cut off."""
        note: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            note = cast("dict[str, Any]", json.loads(self._note.read_text(encoding="utf-8")))
        there = self._volume.part_bytes(self.file.path)
        same = all(note.get(name) == value for name, value in self._identity().items())
        if not same or there > self.file.size_bytes or there < int(note["safe_bytes"]):
            self._volume.discard_part(self.file.path)
            self._write_note()
            return 0, ""
        self.etag, safe = str(note["etag"]), int(note["safe_bytes"])
        if there > safe and note["boot_id"] != _boot_id():
            os.truncate(self._path, safe)
        self._safe_bytes = safe
        return safe, str(note["sha256_state"])

    def _take_up(self, safe_bytes: int, state: str) -> None:
        resumed = resume_sha256(state) if state and self._sha1 is None else None
        if resumed is not None:
            self._sha256 = resumed
            self.size_bytes = self._disk.seek(safe_bytes)
        while block := self._disk.read(_BLOCK_BYTES):
            self._hash(block)
            self.size_bytes += len(block)
            self.reread_bytes += len(block)

    def _hash(self, data: bytes) -> None:
        self._sha256.update(data)
        if self._sha1 is not None:
            self._sha1.update(data)

    def _blob_sha1(self) -> Any:
        """Git's name of a blob is the SHA-1 of its length and its bytes; only files that Git keeps itself have one."""
        if not self.file.git_sha1 or self.file.sha256:
            return None
        return hashlib.sha1(f"blob {self.file.size_bytes}\0".encode(), usedforsecurity=False)

    def _identity(self) -> dict[str, Any]:
        file = self.file
        return {"path": file.path, "bytes": file.size_bytes, "sha256": file.sha256, "git_sha1": file.git_sha1}

    def _write_note(self) -> None:
        note = {"etag": self.etag, "safe_bytes": self.size_bytes, "sha256_state": self._sha256.state()}
        write_whole(self._note, json.dumps({**self._identity(), **note, "boot_id": _boot_id()}))
        self._safe_bytes = self.size_bytes

    def _in_words(self, failed: OSError) -> HydrateError:
        if failed.errno in NO_ROOM:
            return disk_full(self.missing_bytes - self._volume.free_bytes(), str(self._volume.target))
        return HydrateError(
            f"writing {self.file.path} below {self._volume.target} failed: {failed.strerror}. Look at the volume's "
            "state with `dormouse weights status`; the next run goes on where this one stopped"
        )


def looks_like(path: Path, file: RepositoryFile) -> str:
    """In words what the file at `path` is instead of `file`; "" where nothing is to be seen."""
    size = path.stat().st_size
    with path.open("rb") as disk:
        head = disk.read(_HEAD_BYTES)
        if file.path.endswith(".safetensors") and len(head) == _HEAD_BYTES:
            head += disk.read(max(0, min(int.from_bytes(head[:8], "little") + 8, _MOST_HEAD_BYTES) - len(head)))
        disk.seek(max(0, size - TAIL_BYTES))
        return recognise(file.path, size, head, disk.read(TAIL_BYTES), file.size_bytes)


def _boot_id() -> str:
    """Which start of the machine this is (Linux); "" where nobody says, and then no tail is trusted twice."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"unknown, process {os.getpid()}"

"""Proves files that lie on the disk by reading them: for `verify`, and for files that an earlier run did not note."""

import hashlib
from collections.abc import Callable

from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Finished, Volume
from serving.weights.file_set import RepositoryFile

_BLOCK_BYTES = 2**22


def hash_file(volume: Volume, file: RepositoryFile, transport: Transport, read: Callable[[int], None]) -> Finished:
    """What the file at `file.path` is; `read` is told how many bytes have been read. Raises OSError."""
    path = volume.file_path(file.path)
    sha256 = hashlib.sha256()
    sha1 = hashlib.sha1(f"blob {file.size_bytes}\0".encode(), usedforsecurity=False) if file.git_sha1 else None
    done = 0
    with path.open("rb", buffering=0) as disk:
        while block := disk.read(_BLOCK_BYTES):
            transport.check_stop()
            sha256.update(block)
            if sha1 is not None:
                sha1.update(block)
            done += len(block)
            read(done)
    modified_ns = path.stat().st_mtime_ns
    return Finished(file.path, done, sha256.hexdigest(), sha1.hexdigest() if sha1 else "", modified_ns)


def proves(file: RepositoryFile, entry: Finished | None) -> bool:
    """Whether `entry` shows that `file` is on disk as its source states it."""
    if entry is None or entry.size_bytes != file.size_bytes or not entry.sha256:
        return False
    if file.sha256:
        return entry.sha256 == file.sha256
    return not file.git_sha1 or entry.git_sha1 == file.git_sha1

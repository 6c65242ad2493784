"""The run that fills a folder: list, check the room, fetch in parallel, prove, mark."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from components.programs.hydrator.download import Downloader
from components.programs.hydrator.faults import DiskFullError, HydrateError, StoppedError, disk_full
from components.programs.hydrator.hashing import hash_file, proves
from components.programs.hydrator.listing import Listing
from components.programs.hydrator.origins import origin_of
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.settings import Settings
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Finished, Volume, utc_now
from serving.errors import ConfigurationError, Fault
from serving.weights.file_set import FileSet, RepositoryFile, index_faults, listing_faults, needed_files
from serving.weights.manifest import HashOrigin, Manifest, ManifestFile, Marker, marker_of
from serving.weights.sources import WeightSource

_STATE_BYTES = 16 * 2**20  # what journal, listing, manifest and checkpoints take, generously
_MOST_SHOWN = 3


def hydrate(settings: Settings, volume: Volume, transport: Transport, progress: Progress) -> tuple[str, Marker]:
    """`already verified` or `verified`, and the marker; raises HydrateError or ConfigurationError."""
    source = settings.source
    assert source is not None, "the mode needs a source"
    held = _already(volume, source)
    if held is not None:
        return "already verified", held
    listing = volume.listing()
    origin = origin_of(settings, transport)
    if listing is None or listing.origin != str(source):
        listing = origin.listing()
    chosen = FileSet(listing.files, {}) if listing.complete else needed_files(listing.files)
    faults = listing_faults(chosen, settings.required, listing.origin)
    if faults:
        raise ConfigurationError(faults, f"the files of {listing.origin} at {listing.revision}")
    volume.unmark()
    volume.keep_listing(listing)
    progress.say(
        f"{listing.origin} at {listing.revision}: {len(chosen.files)} files, {chosen.total_bytes / 1e9:,.1f} GB; "
        f"{len(chosen.left_out)} left out"
    )
    progress.stage("looking at what is there", chosen.total_bytes, len(chosen.files))
    finished = _there(volume, chosen, transport, progress)
    _check_room(volume, chosen, finished)
    progress.stage(
        "fetching", chosen.total_bytes, len(chosen.files), {path: found.size_bytes for path, found in finished.items()}
    )
    downloader = Downloader(origin, listing, volume, transport, progress, settings.checkpoint_bytes)
    missing = [file for file in chosen.files if file.path not in finished]
    # Small files first: a wrong index or a missing licence shows before hours of shards.
    small = [file for file in missing if not file.path.endswith(".safetensors")]
    finished |= _fetch_all(small, downloader.fetch, settings.concurrency, transport)
    _check_indexes(volume, chosen, listing)
    shards = sorted((file for file in missing if file not in small), key=lambda file: -file.size_bytes)
    finished |= _fetch_all(shards, downloader.fetch, settings.concurrency, transport)
    progress.report(now=True)
    manifest = Manifest(
        listing.source,
        listing.requested_revision,
        listing.revision,
        tuple(_manifest_file(file, finished[file.path]) for file in chosen.files),
    )
    volume.keep_manifest(manifest)
    marker = marker_of(manifest, utc_now(), "download")
    volume.mark(marker)
    return "verified", marker


def _already(volume: Volume, source: WeightSource) -> Marker | None:
    """The marker, where it is of `source` and every file is as it was when it was proven."""
    marker, manifest, listing = volume.marker(), volume.manifest(), volume.listing()
    if marker is None or manifest is None:
        return None
    asked = listing is not None and (listing.origin, listing.revision) == (str(source), marker.revision)
    named = marker.source == source.address and source.revision in (marker.revision, marker.requested_revision)
    if not asked and not named:
        return None
    finished = volume.finished()
    whole = all(
        (found := finished.get(file.path)) is not None and found.sha256 == file.sha256 for file in manifest.files
    )
    return marker if whole else None


def _there(volume: Volume, chosen: FileSet, transport: Transport, progress: Progress) -> dict[str, Finished]:
    """The files that need no fetching. What an earlier run made for another revision is deleted, to make room.

    A file of the right size that no run noted is read and proven: somebody put it there by hand, or a run was killed
    between its last byte and its note.
    """
    wanted = {file.path: file for file in chosen.files}
    finished = volume.finished()
    for path, entry in finished.items():
        if path not in wanted or (entry.sha256 and not proves(wanted[path], entry)):
            progress.say(f"{path}: of another revision, deleted")
            volume.forget(path)
    volume.keep_only_parts_of(set(wanted))
    found: dict[str, Finished] = {}
    for path, file in wanted.items():
        entry = finished.get(path)
        if entry is None or not entry.sha256:
            entry = _proven_by_reading(volume, file, transport, progress)
        if entry is not None and proves(file, entry):
            found[path] = entry
            volume.discard_part(path)
    return found


def _proven_by_reading(
    volume: Volume, file: RepositoryFile, transport: Transport, progress: Progress
) -> Finished | None:
    path = volume.file_path(file.path)
    if not path.is_file() or path.stat().st_size != file.size_bytes or not (file.sha256 or file.git_sha1):
        volume.forget(file.path)
        return None
    progress.say(f"{file.path}: is there without a note of an earlier run; read and compared")
    entry = hash_file(volume, file, transport, lambda done: progress.stored(file.path, done))
    if not proves(file, entry):
        progress.say(f"{file.path}: not what the source states, deleted")
        volume.forget(file.path)
        return None
    volume.note_finished(entry)
    return entry


def _check_room(volume: Volume, chosen: FileSet, finished: dict[str, Finished]) -> None:
    """Raise DiskFullError before anything is fetched that does not fit."""
    missing = [file for file in chosen.files if file.path not in finished]
    needed = sum(file.size_bytes - min(volume.part_bytes(file.path), file.size_bytes) for file in missing)
    lacking = needed + _STATE_BYTES - volume.free_bytes() if missing else 0
    if lacking > 0:
        raise disk_full(lacking, str(volume.target))


def _fetch_all(
    files: Sequence[RepositoryFile],
    fetch: Callable[[RepositoryFile], Finished],
    concurrency: int,
    transport: Transport,
) -> dict[str, Finished]:
    """All files, several at once.

    One that fails does not stop the others, so that the next run has less to do; a full disk stops all.
    """
    found: dict[str, Finished] = {}
    failed: list[Exception] = []
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        waiting: set[Future[Finished]] = {pool.submit(fetch, file) for file in files}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    entry = future.result()
                    found[entry.path] = entry
                except Exception as error:  # noqa: BLE001  # a fault of ours must stop the others too, then be seen
                    failed.append(error)
                    if not isinstance(error, HydrateError) or isinstance(error, DiskFullError):
                        transport.stop.set()
                        transport.close_all()
    _raise_gathered(failed)
    return found


def _raise_gathered(failed: list[Exception]) -> None:
    ours = [error for error in failed if not isinstance(error, HydrateError)]
    full = [error for error in failed if isinstance(error, DiskFullError)]
    stopped = [error for error in failed if isinstance(error, StoppedError)]
    for first in (*ours, *full, *stopped):
        raise first
    if len(failed) == 1:
        raise failed[0]
    if failed:
        shown = "\n".join(f"  - {error}" for error in failed[:_MOST_SHOWN])
        more = f"\n  and {len(failed) - _MOST_SHOWN} more" if len(failed) > _MOST_SHOWN else ""
        raise HydrateError(f"{len(failed)} files could not be fetched:\n{shown}{more}")


def _check_indexes(volume: Volume, chosen: FileSet, listing: Listing) -> None:
    faults: list[Fault] = []
    for path in chosen.indexes:
        try:
            index: Any = json.loads(volume.file_path(path).read_text(encoding="utf-8"))
        except ValueError as wrong:
            faults.append(Fault(path, f"no JSON ({wrong})", "an index that says which shard holds which tensor"))
            continue
        faults += index_faults(chosen, path, index)
    if faults:
        raise ConfigurationError(faults, f"the files of {listing.origin} at {listing.revision}")


def _manifest_file(file: RepositoryFile, entry: Finished) -> ManifestFile:
    origin = HashOrigin.SOURCE if file.sha256 else HashOrigin.GIT if file.git_sha1 else HashOrigin.COMPUTED
    return ManifestFile(file.path, file.size_bytes, entry.sha256, origin)

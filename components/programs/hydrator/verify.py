"""Reads weights again and compares them with the manifest: all of them, or a sample and whatever looks wrong."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from components.programs.hydrator.faults import UnprovenError
from components.programs.hydrator.hashing import hash_file
from components.programs.hydrator.part import looks_like
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Volume, utc_now
from serving.weights.file_set import RepositoryFile
from serving.weights.manifest import ManifestFile, Marker, marker_of

_MOST_SHOWN = 5


def verify(volume: Volume, transport: Transport, progress: Progress, sample: int, concurrency: int) -> Marker:
    """The marker after the check; raises UnprovenError naming every file that is wrong.

    - `sample`: files to read, chosen by chance; 0 reads all. Sizes, safetensors headers and ends are looked at in all.

    Where a file is wrong the marker is taken away, so that no server starts; the next hydrate fetches that file alone.
    """
    manifest, marker = volume.manifest(), volume.marker()
    if manifest is None:
        raise UnprovenError(f"{volume.target} has no manifest to compare with. Run: dormouse weights hydrate")
    if sample and marker is None:
        raise UnprovenError(f"{volume.target} was never verified as a whole. Run: dormouse weights hydrate")
    wrong = {file.path: words for file in manifest.files if (words := _seen(volume, file))}
    sound = [file for file in manifest.files if file.path not in wrong]
    # An end of zeros may be what the model has: reading decides.
    suspects = [file for file in sound if looks_like(volume.file_path(file.path), _listed(file))]
    chosen = random.sample(sound, min(sample, len(sound))) if sample else sound
    chosen = list(dict.fromkeys([*suspects, *chosen]))
    progress.stage("verifying", sum(file.size_bytes for file in chosen), len(chosen))

    def compare(file: ManifestFile) -> tuple[str, str]:
        found = hash_file(volume, _listed(file), transport, lambda done: progress.stored(file.path, done))
        progress.finished(file.path)
        if found.sha256 == file.sha256:
            return file.path, ""
        # A note without a hash: the next hydrate reads the file, finds it wrong and fetches it.
        volume.note_finished(replace(found, sha256="", git_sha1=""))
        return file.path, f"SHA-256 is {found.sha256}, the manifest states {file.sha256}"

    with ThreadPoolExecutor(max_workers=min(concurrency, 8)) as pool:
        wrong |= {path: words for path, words in pool.map(compare, chosen) if words}
    progress.report(now=True)
    if wrong:
        volume.unmark()
        shown = "\n".join(f"  - {path}: {words}" for path, words in sorted(wrong.items())[:_MOST_SHOWN])
        more = f"\n  and {len(wrong) - _MOST_SHOWN} more" if len(wrong) > _MOST_SHOWN else ""
        raise UnprovenError(
            f"{len(wrong)} of {len(manifest.files)} files in {volume.target} are wrong; the marker is taken away, so no "
            f"server starts on them:\n{shown}{more}\nRun `dormouse weights hydrate`: it fetches these alone"
        )
    if sample:
        assert marker is not None
        return marker
    fresh = marker_of(manifest, utc_now(), "full")
    volume.mark(fresh)
    return fresh


def _seen(volume: Volume, file: ManifestFile) -> str:
    """What is wrong by name and size alone."""
    path = volume.file_path(file.path)
    if not path.is_file():
        return "missing"
    size = path.stat().st_size
    return "" if size == file.size_bytes else f"{size:,} bytes instead of {file.size_bytes:,}"


def _listed(file: ManifestFile) -> RepositoryFile:
    return RepositoryFile(file.path, file.size_bytes, file.sha256)

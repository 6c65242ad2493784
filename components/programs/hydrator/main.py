"""The hydrator's entry: settings, signals, one run, the last words, an exit status."""

import os
import signal
import sys
import traceback
from threading import Event, Thread
from typing import Any

from components.programs.hydrator.faults import NO_ROOM, HydrateError, StoppedError, UnprovenError, disk_full
from components.programs.hydrator.hydrate import hydrate
from components.programs.hydrator.progress import Progress, last_words
from components.programs.hydrator.s3.client import S3Client
from components.programs.hydrator.s3.copy import S3Copy
from components.programs.hydrator.settings import Settings, read_settings
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.verify import verify
from components.programs.hydrator.volume import Volume
from serving.errors import ConfigurationError, DormouseError
from serving.weights.marker import PROGRESS_PATH, UNPROVEN_OUTCOME, UNPROVEN_STATUS

DONE, FAILED, WRONG_USAGE, STOPPED = 0, 1, 2, 143


def main() -> int:
    """Run by the environment and the first argument; 0 done, 1 failed, 2 wrong settings, 3 weights not proven, 143 told to end."""
    try:
        settings = read_settings(os.environ, tuple(sys.argv[1:2]))
    except ConfigurationError as wrong:
        _say(str(wrong))
        return WRONG_USAGE
    stop = Event()
    transport = Transport(settings.stall_s, settings.attempts, settings.backoff_s, stop)

    def stop_all() -> None:
        stop.set()
        transport.close_all()

    def end(_number: int, _frame: Any) -> None:
        # Not in the handler itself: it interrupts the main thread, which may hold the locks that this takes.
        Thread(target=stop_all, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    progress = Progress(settings.target / PROGRESS_PATH, settings.progress_s, _say)
    summary: dict[str, Any] = {"mode": settings.mode, "source": str(settings.source) if settings.source else ""}
    try:
        summary |= _run(settings, transport, progress)
        status = DONE
    except StoppedError as stopped:
        summary |= {"outcome": "stopped", "message": str(stopped)}
        status = STOPPED
    except UnprovenError as wrong:
        summary |= {"outcome": UNPROVEN_OUTCOME, "message": str(wrong)}
        status = UNPROVEN_STATUS
    except DormouseError as failed:
        summary |= {"outcome": "failed", "message": str(failed)}
        status = WRONG_USAGE if isinstance(failed, ConfigurationError) else FAILED
    except OSError as failed:
        place = failed.filename or settings.target
        words = f"{place}: {failed.strerror}. The folder must be on the volume and writable by user {os.getuid()}"
        if failed.errno in NO_ROOM:
            words = str(disk_full(1, str(settings.target)))
        summary |= {"outcome": "failed", "message": words}
        status = FAILED
    except Exception as fault:  # noqa: BLE001  # a fault of ours: say so, with what finds it
        traceback.print_exc()
        summary |= {"outcome": "failed", "message": f"a fault in the hydrator itself: {fault!r}; the log has its trace"}
        status = FAILED
    summary |= {
        "downloaded_bytes": progress.downloaded_bytes,
        "resumed_bytes": progress.resumed_bytes,
        "reread_bytes": progress.reread_bytes,
        "again_bytes": progress.again_bytes,
        "seconds": round(progress.seconds, 3),
        "bytes_per_s": round(progress.downloaded_bytes / max(progress.seconds, 0.001)),
    }
    _say(f"{summary['outcome']}: {summary['message']}")
    last_words(settings.termination_log, summary)
    return status


def _run(settings: Settings, transport: Transport, progress: Progress) -> dict[str, Any]:
    """The part of the summary that says what came out."""
    volume = Volume(settings.target)
    volume.prepare()
    copied: dict[str, Any] = {}
    with volume.locked():
        if settings.mode == "verify":
            marker = verify(volume, transport, progress, settings.sample, settings.concurrency)
            outcome = f"sample of {settings.sample} files verified" if settings.sample else "verified"
        elif settings.mode == "hydrate":
            outcome, marker = hydrate(settings, volume, transport, progress)
        else:
            marker, outcome = volume.marker(), "copied"
        if settings.copy_to is not None:
            client = S3Client(transport, settings.region, settings.s3_endpoint)
            done = S3Copy(volume, settings.copy_to, client, transport, progress, settings.part_bytes).run(
                settings.concurrency
            )
            copied = {
                "copied_to": str(settings.copy_to),
                "copied_files": done.files_sent,
                "copied_bytes": done.sent_bytes,
            }
    if marker is None:
        raise HydrateError(f"{settings.target} is not verified. Run: dormouse weights hydrate")
    message = (
        f"{marker.files} files, {marker.total_bytes / 1e9:,.2f} GB of {marker.source} at {marker.revision} "
        f"in {settings.target}" + (f", copied to {settings.copy_to}" if copied else "")
    )
    return {
        "outcome": outcome,
        "message": message,
        "source": marker.source,
        "revision": marker.revision,
        "files": marker.files,
        "total_bytes": marker.total_bytes,
        "manifest_sha256": marker.manifest_sha256,
        **copied,
    }


def _say(text: str) -> None:
    print(text, flush=True)

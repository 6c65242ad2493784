"""Takes a made-up model of 2 GB through every fault, with the very program that a pod runs, and says what it cost.

    .venv/bin/python -m benchmarks.hydrate [--gb 2] [--folder DIR] [--json]

The hub is a local stand-in over real sockets in this process; the program runs in its own. MB/s are therefore those of
this machine's loop-back, disk and processor, which both share.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from components.programs.bundle import bundle
from components.programs.hydrator import ENTRY, MODULES
from tests.programs.hub import Hub, Trouble, wait_until
from tests.programs.model import MadeUpModel, made_up_model, sibling
from tests.programs.running import assert_whole, environment, finish, last_words, start

SHARDS = 16


@dataclass
class Row:
    """What one scenario cost. `mb_per_s`: None where no weights were moved or read; `extra_bytes`: sent by the hub beyond the model's own bytes."""

    scenario: str
    seconds: float
    mb_per_s: float | None
    hub_bytes: int
    extra_bytes: int
    reread_bytes: int


class Bench:
    """The model, the program and a folder to work in."""

    def __init__(self, folder: Path, gb: float) -> None:
        self.folder = folder
        self.model: MadeUpModel = made_up_model(shards=SHARDS, shard_mb=gb * 1000 / SHARDS)
        self.program = folder / "hydrator.pyz"
        self.program.write_bytes(bundle(ENTRY, MODULES))
        self.rows: list[Row] = []

    def run(self, hub: Hub, target: Path, mode: str = "hydrate", expected: int = 0, **more: str) -> None:
        given = environment(hub, target, **{
            "DORMOUSE_CONCURRENCY": "8", "DORMOUSE_CHECKPOINT_MIB": "256", "DORMOUSE_STALL_S": "3",
            "DORMOUSE_BACKOFF_S": "0.05", "DORMOUSE_PROGRESS_S": "5", **more,
        })  # fmt: skip
        status, output = finish_slowly(self.program, given, mode)
        if status != expected:
            raise SystemExit(f"{mode} ended with {status}:\n{output}")

    def measure(self, scenario: str, hub: Hub, target: Path, work: Callable[[], None], *, whole: bool = True) -> None:
        hub.served.clear()
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        if whole:
            assert_whole(target, self.model)
        words = last_words(target)
        sent = hub.served_bytes
        extra = max(0, sent - self.model.total_bytes)
        idle = not sent and words["outcome"] == "already verified"
        rate = None if idle else self.model.total_bytes / seconds / 1e6
        row = Row(scenario, seconds, rate, sent, extra, words["reread_bytes"])
        self.rows.append(row)
        shown = "        -" if rate is None else f"{rate:9.0f}"
        print(
            f"{scenario:46} {seconds:6.2f} s {shown} MB/s, sent {sent / 1e6:7.1f} MB, extra {extra / 1e6:5.1f} MB, "
            f"read again {row.reread_bytes / 1e6:5.1f} MB",
            file=sys.stderr,
        )


def finish_slowly(program: Path, given: dict[str, str], mode: str) -> tuple[int, str]:
    process = start(program, given, mode)
    output, _ = process.communicate(timeout=1200)
    return process.returncode, output


def all_troubles(model: MadeUpModel) -> dict[str, list[Trouble]]:
    """A fault for every shard, each of another kind."""
    size = len(model.files[model.shards[0]])
    kinds = [
        [Trouble(status=429, headers={"Retry-After": "1"})],
        [Trouble(status=503), Trouble(status=500)],
        [Trouble(reset_at=size // 2)],
        [Trouble(end_at=size // 3), Trouble(end_at=size // 2)],
        [Trouble(stall_at=size // 2)],
        [Trouble(flip_at=size // 2)],
        [Trouble(end_at=size // 10), Trouble(ignore_range=True)],
        [Trouble(end_at=size // 10), Trouble(content_range="bytes 5-6/7")],
        [Trouble(end_at=size // 10), Trouble(etag='"changed"')],
        [Trouble(body=b"version https://git-lfs.github.com/spec/v1\n")],
        [Trouble(body=b"<!DOCTYPE html><html></html>")],
        [Trouble(status=403)],
        [Trouble(end_at=size // 10), Trouble(status=416)],
        [Trouble(bytes_per_s=100_000_000)],
    ]
    return dict(zip(model.shards, kinds, strict=False))


def scenarios(bench: Bench) -> None:
    model = bench.model
    for path, data in model.everything.items():
        sibling(path, data)  # a real hub knows its hashes before it is asked
    with Hub(model, block_bytes=2**20) as hub:
        plain = bench.folder / "plain"
        bench.measure("nothing goes wrong", hub, plain, lambda: bench.run(hub, plain))
        bench.measure("run again on the verified folder", hub, plain, lambda: bench.run(hub, plain))
        bench.measure("verify, full", hub, plain, lambda: bench.run(hub, plain, "verify"))
        remove(plain)

        broken = bench.folder / "broken"
        hub.troubles.update(all_troubles(model))
        bench.measure("every fault of hub and network, one a shard", hub, broken, lambda: bench.run(hub, broken))
        remove(broken)

        killed = bench.folder / "killed"
        killed.mkdir()

        def killed_then_run() -> None:
            hub.hold_after(model.total_bytes * 6 // 10)
            process = start(
                bench.program, environment(hub, killed, DORMOUSE_STALL_S="600", DORMOUSE_CHECKPOINT_MIB="256")
            )
            wait_until(hub.gate.is_set, 600)
            process.kill()
            finish(process)
            hub.gate_bytes = None
            bench.run(hub, killed)

        bench.measure("SIGKILL at 60 %, run again", hub, killed, killed_then_run)
        remove(killed)
        if os.getuid() == 0:
            full_disk(bench, hub)


def full_disk(bench: Bench, hub: Hub) -> None:
    """A file system that holds 60 % of the model, then grows, as an EBS volume does."""
    disk = bench.folder / "disk"
    disk.mkdir()
    size = bench.model.total_bytes
    small, large = f"size={size * 6 // 10}", f"size={size + 64 * 2**20}"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", small, "tmpfs", str(disk)], check=False).returncode != 0:  # noqa: S607
        print("full disk: skipped, no file system can be mounted here", file=sys.stderr)
        return
    target = disk / "model"
    words = {"DORMOUSE_TERMINATION_LOG": str(target.parent / "model.last-words")}
    try:

        def refused_then_grown() -> None:
            bench.run(hub, target, expected=1, **words)
            print(f"  {last_words(target)['message']}", file=sys.stderr)
            subprocess.run(["mount", "-o", f"remount,{large}", str(disk)], check=True)  # noqa: S607
            bench.run(hub, target, **words)

        bench.measure("disk too small, grown, run again", hub, target, refused_then_grown)
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


def remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2.0, help="size of the model in GB")
    parser.add_argument("--folder", type=Path, help="where to work; default a temporary folder")
    parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(Path(folder), options.gb)
        print(f"{len(bench.model.files)} files, {bench.model.total_bytes:,} bytes", file=sys.stderr)
        scenarios(bench)
    if options.json:
        print(json.dumps([asdict(row) for row in bench.rows], indent=2))


if __name__ == "__main__":
    main()

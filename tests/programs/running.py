"""Runs the hydrator: in this process for speed, or as the bundle that a pod runs, to be killed."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from components.programs.hydrator.hydrate import hydrate
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.settings import Settings, read_settings
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Volume
from serving.weights.marker import PROGRESS_PATH
from tests.programs.hub import REPOSITORY, Hub
from tests.programs.model import MadeUpModel


def environment(hub: Hub, target: Path, **more: str) -> dict[str, str]:
    return {
        "DORMOUSE_SOURCE": f"hf://{REPOSITORY}",
        "DORMOUSE_TARGET": str(target),
        "DORMOUSE_TERMINATION_LOG": str(target.parent / f"{target.name}.last-words"),
        "HF_ENDPOINT": hub.url,
        "DORMOUSE_CONCURRENCY": "4",
        "DORMOUSE_STALL_S": "30",
        "DORMOUSE_ATTEMPTS": "5",
        "DORMOUSE_BACKOFF_S": "0.005",
        "DORMOUSE_CHECKPOINT_MIB": "0.25",
        "DORMOUSE_PROGRESS_S": "0.05",
        **more,
    }


@dataclass
class Ran:
    outcome: str
    progress: Progress
    lines: list[str]


def settings_of(hub: Hub, target: Path, **more: str) -> Settings:
    return read_settings(environment(hub, target, **more))


def run(settings: Settings) -> Ran:
    """One hydrate in this process."""
    lines: list[str] = []
    progress = Progress(settings.target / PROGRESS_PATH, settings.progress_s, lines.append)
    transport = Transport(settings.stall_s, settings.attempts, settings.backoff_s, Event())
    volume = Volume(settings.target)
    volume.prepare()
    with volume.locked():
        outcome, _ = hydrate(settings, volume, transport, progress)
    return Ran(outcome, progress, lines)


def start(bundle: Path, settings: dict[str, str], mode: str = "hydrate") -> subprocess.Popen[str]:
    """The program as a pod runs it: no package of this repository, no environment but its own."""
    return subprocess.Popen(
        [sys.executable, "-I", str(bundle), mode],
        env={"PATH": "/usr/bin:/bin", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def last_words(target: Path) -> dict[str, Any]:
    return json.loads((target.parent / f"{target.name}.last-words").read_text())


def assert_whole(target: Path, model: MadeUpModel) -> None:
    """Exactly the model's files, byte for byte, and nothing else but the state folder."""
    there = {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file() and ".dormouse" not in path.parts
    }
    assert set(there) == set(model.files)
    assert all(there[path] == data for path, data in model.files.items())
    assert (target / ".dormouse" / "verified.json").is_file()
    assert list((target / ".dormouse" / "parts").iterdir()) == []

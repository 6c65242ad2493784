"""What this machine brings: Go, and perhaps an installed Pulumi that need not be built."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.builder.errors import EngineBuildError
from engine.builder.recipe import ENGINE_FOLDER, PULUMI_NAMES, pinned_version, required_go, version_numbers

WITHOUT_GO = "`make try` and `make test` do not need it."


@dataclass(frozen=True)
class Go:
    """The Go command and its version, such as (1, 26, 8)."""

    command: str
    version: tuple[int, ...]


@dataclass(frozen=True)
class InstalledPulumi:
    """An installed Pulumi that fits: its version and the real path of each of its files by name."""

    version: str
    files: dict[str, Path]


@dataclass(frozen=True)
class RefusedPulumi:
    """An installed Pulumi that does not fit, and why, as the end of "not used: …"."""

    command: str
    reason: str


def go_environment() -> dict[str, str]:
    """The environment of every Go command: no C compiler, no workspace or flags of the user's own projects."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}


def installed_go() -> Go | None:
    """The Go on PATH as it would act on our modules (it may fetch a newer self), or None without one."""
    command = shutil.which("go")
    if command is None:
        return None
    answer = subprocess.run(
        [command, "env", "GOVERSION"],
        cwd=ENGINE_FOLDER / "pulumi",
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if version := version_numbers(answer.stdout):
        return Go(command, version)
    raise EngineBuildError(
        f"{command} does not say its version (`go env GOVERSION` ended with {answer.returncode}):\n"
        f"{answer.stderr.strip() or answer.stdout.strip()}\n{_go_wanted()}"
    )


def checked_go(go: Go | None) -> Go:
    """`go` where it can build the pins; raises EngineBuildError where it is missing or too old."""
    if go is None:
        raise EngineBuildError(f"Go is not installed: there is no `go` on PATH. {_go_wanted()}")
    if go.version < required_go():
        raise EngineBuildError(f"Go {dotted(go.version)} ({go.command}) is too old. {_go_wanted()}")
    return go


def _go_wanted() -> str:
    return (
        "The engine tier compiles Pulumi's engine and a Kubernetes control plane from their sources, which needs "
        f"Go {dotted(required_go())} or newer (https://go.dev/dl). {WITHOUT_GO}"
    )


def installed_pulumi(cache_root: Path) -> InstalledPulumi | RefusedPulumi | None:
    """The Pulumi on PATH where it fits, a refusal where it does not, None without one.

    - `cache_root`: our own builds, which do not count as installed.
    """
    found = shutil.which("pulumi")
    if found is None:
        return None
    command = Path(found).resolve()
    if command.is_relative_to(cache_root.resolve()):
        return None
    try:
        answer = subprocess.run(
            [str(command), "version"],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return RefusedPulumi(found, f"`{command} version` failed: {error}")
    version = answer.stdout.strip()
    if reason := misfit(version, pinned_version("pulumi", "github.com/pulumi/pulumi/pkg/v3")):
        return RefusedPulumi(found, reason)
    files = {"pulumi": command}
    for name in PULUMI_NAMES[1:]:
        beside = command.parent / name
        path = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
        if path is None:
            return RefusedPulumi(found, f"`{name}` is neither beside it nor on PATH")
        files[name] = Path(path).resolve()
    return InstalledPulumi(version, files)


def misfit(version: str, pinned: str) -> str:
    """Why an installed Pulumi of `version` cannot stand in for the `pinned` one; empty where it can.

    A newer minor serves older programs; another major, or a minor older than the pin, may not.
    """
    numbers, wanted = version_numbers(version), version_numbers(pinned)
    accepted = f"accepted: {wanted[0]}.{wanted[1]} or newer, below {wanted[0] + 1}"
    if len(numbers) < 2:
        return f"its version reads {version!r}; {accepted}"
    if numbers[0] != wanted[0] or numbers[:2] < wanted[:2]:
        return f"its version is {version}; {accepted}"
    return ""


def dotted(version: tuple[int, ...]) -> str:
    """`(1, 26, 6)` as `1.26.6`."""
    return ".".join(str(part) for part in version)

"""The command line of `engine/build.py`."""

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from engine.builder.cache import EngineCache, cache_root
from engine.builder.construct import construct, link_installed
from engine.builder.errors import EngineBuildError
from engine.builder.progress import Progress
from engine.builder.recipe import PULUMI_NAMES, cache_key, required_go
from engine.builder.toolchain import (
    WITHOUT_GO,
    Go,
    InstalledPulumi,
    RefusedPulumi,
    checked_go,
    installed_go,
    installed_pulumi,
)

# Measured with the pins of this version from empty caches.
RESULT_GB = 0.8
GO_CACHES_GB = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing, or only say where it stands. Exit codes: 0 complete, 1 not, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="engine/build.py",
        description="Build Pulumi's engine and a Kubernetes control plane for `make test-engine`, once per pin.",
        epilog="Results stand in $DORMOUSE_ENGINE_CACHE, else in dormouse/engine in the user's cache folder.",
    )
    parser.add_argument("--print-path", action="store_true", help="print the bin folder and build nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; progress goes to stderr")
    options = parser.parse_args(arguments)
    # A plain kill must end the compilers too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        return _run(options.print_path, options.json)
    except EngineBuildError as error:
        print(f"engine/build.py: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("engine/build.py: stopped; finished targets are kept, run it again to go on", file=sys.stderr)
    except OSError as error:
        print(f"engine/build.py: {error}; set DORMOUSE_ENGINE_CACHE to a folder with room", file=sys.stderr)
    return 1


def _run(print_path: bool, as_json: bool) -> int:
    go = installed_go()
    # Without a fitting Go, a build brought from elsewhere (a CI cache) is still found, by the pins' own Go version.
    version = max(go.version, required_go()) if go else required_go()
    cache = EngineCache(cache_root(), cache_key(version[:2]))
    if not print_path and cache.missing():
        _build(cache, go, Progress(sys.stderr, sys.stderr.isatty()))
    missing = cache.missing()
    if as_json:
        print(json.dumps(_result(cache, missing), indent=2))
    elif print_path:
        print(cache.bin)
    else:
        print(f"The engine tier is complete: {cache.bin}")
        if older := cache.older_builds():
            print(f"Builds of other pins may be deleted: {' '.join(str(path) for path in older)}")
    if missing:
        names = ", ".join(Path(path).name for path in missing)
        print(f"The engine tier is not built; missing: {names}. Build it: python3 engine/build.py", file=sys.stderr)
    return 1 if missing else 0


def _build(cache: EngineCache, go: Go | None, progress: Progress) -> None:
    def waiting(process_id: str) -> None:
        progress.note(f"Another build (process {process_id}) fills {cache.folder}; waiting for it.")

    with cache.locked(waiting):
        pulumi_missing = any(f"bin/{name}" in cache.missing() for name in PULUMI_NAMES)
        if pulumi_missing:
            pulumi = installed_pulumi(cache.root)
            if isinstance(pulumi, InstalledPulumi):
                link_installed(cache, pulumi)
                progress.note(f"Uses the installed Pulumi {pulumi.version}: {pulumi.files['pulumi']}")
            elif isinstance(pulumi, RefusedPulumi):
                progress.note(f"The installed {pulumi.command} is not used: {pulumi.reason}. Building the pinned one.")
        products = cache.missing()
        if not products:
            return
        usable = checked_go(go)
        progress.note(_size_text(cache, len(products)))
        for number, product in enumerate(products, start=1):
            with progress.step(f"{number}/{len(products)}", Path(product).name) as tick:
                construct(cache, usable, product, tick)
        shutil.rmtree(cache.folder / "unfinished", ignore_errors=True)


def _size_text(cache: EngineCache, count: int) -> str:
    free_gb = shutil.disk_usage(cache.folder).free / 1e9
    return (
        f"Builds {count} files into {cache.folder}: from empty caches about ten minutes on 2 cores, {RESULT_GB} GB "
        f"there and up to {GO_CACHES_GB} GB in Go's own caches ({free_gb:.0f} GB are free). {WITHOUT_GO}"
    )


def _result(cache: EngineCache, missing: list[str]) -> dict[str, Any]:
    pulumi = cache.bin / "pulumi"
    return {
        "key": cache.key,
        "bin": str(cache.bin),
        "share": str(cache.share),
        "complete": not missing,
        "missing": missing,
        "pulumi": "installed" if pulumi.is_symlink() else "built" if pulumi.is_file() else "missing",
    }


def _as_interrupt(_signal_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

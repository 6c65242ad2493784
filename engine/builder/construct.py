"""Making what is missing: link what is installed, compile targets, copy module files."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.builder.cache import EngineCache
from engine.builder.errors import EngineBuildError
from engine.builder.recipe import COPIED_FILES, ENGINE_FOLDER, GO_BUILD_FLAGS, TARGETS, CopiedFile, Target, stamp_flags
from engine.builder.toolchain import Go, InstalledPulumi, go_environment

Tick = Callable[[], None]


def link_installed(cache: EngineCache, pulumi: InstalledPulumi) -> None:
    """Let `bin/` point at an installed Pulumi's files."""
    for name, path in pulumi.files.items():
        link = cache.scratch(f"bin/{name}")
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        cache.install(link, f"bin/{name}")


def construct(cache: EngineCache, go: Go, product: str, tick: Tick) -> None:
    """Make `product`, one of `recipe.product_paths()`; calls `tick` about twice a second.

    Raises EngineBuildError with the end of Go's own words.
    """
    for target in TARGETS:
        if product == f"bin/{target.name}":
            _compile(cache, go, target, tick)
            return
    file = next(file for file in COPIED_FILES if file.destination == product)
    _copy(cache, go, file, tick)


def _compile(cache: EngineCache, go: Go, target: Target, tick: Tick) -> None:
    output = cache.scratch(f"bin/{target.name}")
    command = [go.command, "build", *GO_BUILD_FLAGS, f"-ldflags={stamp_flags(target)}", "-o", str(output)]
    if target.embeds:
        # Files to embed must stand beside the main package; a copy of the folder keeps the tree clean.
        with tempfile.TemporaryDirectory(prefix="dormouse-engine-") as name:
            folder = Path(name)
            for source in ("go.mod", "go.sum", "main.go"):
                shutil.copyfile(ENGINE_FOLDER / target.folder / source, folder / source)
            module = _module_folder(go, folder, target.embeds_from, tick)
            for embedded in target.embeds:
                shutil.copyfile(module / embedded, folder / Path(embedded).name)
            _run([*command, target.package], folder, target.name, tick)
    else:
        _run([*command, target.package], ENGINE_FOLDER / target.folder, target.name, tick)
    cache.install(output, f"bin/{target.name}")


def _copy(cache: EngineCache, go: Go, file: CopiedFile, tick: Tick) -> None:
    module = _module_folder(go, ENGINE_FOLDER / file.folder, file.module, tick)
    scratch = cache.scratch(file.destination)
    scratch.write_text("---\n".join((module / source).read_text(encoding="utf-8") for source in file.sources))
    scratch.chmod(0o755 if file.executable else 0o644)
    cache.install(scratch, file.destination)


def _module_folder(go: Go, folder: Path, module: str, tick: Tick) -> Path:
    """Where Go keeps the pinned `module`'s files, downloaded first where they are not there."""
    answer = _run([go.command, "mod", "download", "-json", module], folder, module, tick)
    facts: dict[str, Any] = json.loads(answer)
    return Path(facts["Dir"])


def _run(command: list[str], folder: Path, what: str, tick: Tick) -> str:
    """Run Go and give its standard output; a stop from the keyboard takes its compilers along."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=go_environment(), stdout=output, stderr=errors, start_new_session=True
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    tick()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        said = output.read()
        if code == 0:
            return said
        raise EngineBuildError(failure_text(what, code, said + errors.read()))


def failure_text(what: str, code: int, said: str) -> str:
    """The message for a failed Go command: its last lines, and what would help where they tell."""
    tail = "\n".join(f"  {line}" for line in said.strip().splitlines()[-12:])
    remedies = {
        "no space left on device": "The disk is full: `go clean -cache` frees Go's build cache; finished targets stay.",
        "signal: killed": "The system killed the compiler, most likely for memory: set GOMAXPROCS=2 and run it again.",
        "dial tcp": "Go modules could not be downloaded: check the network and GOPROXY, then run it again.",
        "no such host": "Go modules could not be downloaded: check the network and GOPROXY, then run it again.",
        "checksum mismatch": "A module differs from its pin in go.sum: `go clean -modcache`, then run it again.",
    }
    remedy = next((text for sign, text in remedies.items() if sign in said), "Finished targets are kept.")
    return f"{what} could not be built (`go` ended with {code}):\n{tail}\n{remedy}"

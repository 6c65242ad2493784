"""Where builds stand: one folder per key, outside the working tree, filled file by file under a lock."""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.builder.recipe import product_paths


@dataclass(frozen=True)
class EngineCache:
    """The folder of one build.

    - `root`: the folder of all builds.
    - `key`: from `recipe.cache_key`.
    """

    root: Path
    key: str

    @property
    def folder(self) -> Path:
        """Where this build stands."""
        return self.root / self.key

    @property
    def bin(self) -> Path:
        """The binaries and scripts; belongs on PATH."""
        return self.folder / "bin"

    @property
    def share(self) -> Path:
        """Data files, such as KWOK's stages."""
        return self.folder / "share"

    def missing(self) -> list[str]:
        """What a complete build still lacks, such as `bin/etcd`; a link to a removed installation counts."""
        return [path for path in product_paths() if not (self.folder / path).is_file()]

    def older_builds(self) -> list[Path]:
        """The folders of builds under other keys."""
        if not self.root.is_dir():
            return []
        return sorted(path for path in self.root.iterdir() if path.is_dir() and path.name != self.key)

    def scratch(self, name: str) -> Path:
        """Where `name` is built before it is moved into place: same file system, so that the move is atomic."""
        folder = self.folder / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name.replace("/", "-")

    def install(self, built: Path, destination: str) -> None:
        """Move `built` (from `scratch`) to `destination`, in one step that readers never see half done."""
        target = self.folder / destination
        target.parent.mkdir(parents=True, exist_ok=True)
        built.replace(target)

    @contextmanager
    def locked(self, waiting: Callable[[str], None]) -> Generator[None]:
        """Hold this build's folder alone; a second builder waits.

        - `waiting`: called once, with the other builder's process id, when there is one.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as file:
            told = False
            while True:
                try:
                    # The kernel lets go when the process ends, however it ends, so no lock is ever stale.
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not told:
                        file.seek(0)
                        waiting(file.read().strip() or "unknown")
                        told = True
                    time.sleep(0.5)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield


def cache_root() -> Path:
    """`$DORMOUSE_ENGINE_CACHE`, else `dormouse/engine` in the user's cache folder."""
    if named := os.environ.get("DORMOUSE_ENGINE_CACHE"):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "dormouse" / "engine"

"""One zip file out of the modules that a program needs: for a ConfigMap, where `python bundle.pyz` runs it, or a Lambda.

The bytes depend on nothing but the sources: names in order, one time stamp, nothing compressed (deflate differs between
zlib versions, and a bundle that changes by itself would be deployed anew).
"""

import hashlib
import importlib.util
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from serving.errors import DormouseError

CONFIG_MAP_LIMIT_BYTES = 900 * 1024
"""A ConfigMap may hold 1 MiB (Kubernetes), less what its names and metadata take."""
_TIME = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can hold
_MODE = 0o644 << 16


class BundleError(DormouseError):
    """A module that is not there, or a bundle that is too large; the message names it."""


def bundle(entry: str, modules: Sequence[str], *, limit_bytes: int | None = CONFIG_MAP_LIMIT_BYTES) -> bytes:
    """A zip that Python runs.

    - `entry`: `package.module:function`; what the function returns becomes the exit status.
    - `modules`: dotted names. A package brings everything below it, with its TOML, JSON and conf files. Packages above
      that are not named are empty in the zip, so what they import is not needed there.
    - `limit_bytes`: None for no limit.

    Raises BundleError.
    """
    module, _, function = entry.partition(":")
    if not function:
        raise BundleError(f"{entry!r} is no entry; accepted: package.module:function")
    files: dict[str, bytes] = {}
    for name in modules:
        files.update(_sources(name))
    for path in list(files):
        for parent in Path(path).parents:
            if parent != Path():
                files.setdefault(f"{parent.as_posix()}/__init__.py", b"")
    if not {f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"} & set(files):
        raise BundleError(f"{module} is not among the modules of its bundle: {', '.join(modules)}")
    files["__main__.py"] = f"import sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n".encode()
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            entry_of = zipfile.ZipInfo(path, _TIME)
            entry_of.external_attr = _MODE
            entry_of.create_system = 3  # Unix, wherever it is made
            archive.writestr(entry_of, files[path])
    data = held.getvalue()
    if limit_bytes is not None and len(data) > limit_bytes:
        largest = sorted(files, key=lambda path: -len(files[path]))[:3]
        raise BundleError(
            f"the bundle of {entry} has {len(data):,} bytes; accepted: {limit_bytes:,}. Largest: {', '.join(largest)}"
        )
    return data


def bundle_digest(data: bytes) -> str:
    """SHA-256 of a bundle, for a pod annotation that changes exactly when the program does."""
    return hashlib.sha256(data).hexdigest()


def _sources(name: str) -> Iterator[tuple[str, bytes]]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BundleError(f"there is no module {name}")
    path = name.replace(".", "/")
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        yield f"{path}.py", origin.read_bytes()
        return
    for file in sorted(origin.parent.rglob("*")):
        if file.is_file() and file.suffix in {".py", ".toml", ".json", ".conf"}:
            yield f"{path}/{file.relative_to(origin.parent).as_posix()}", file.read_bytes()

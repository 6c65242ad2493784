"""The manifest of a model's files, and the marker that says that all of them have been checked against it.

Both documents have one fixed form: the same weights give the same bytes, and a shell can read them line by line.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from serving.errors import DormouseError

FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ManifestError(DormouseError):
    """A manifest or marker that cannot be read; the message says what to run."""


class HashOrigin(StrEnum):
    """Whose word a file's SHA-256 is."""

    SOURCE = "stated by the source"
    GIT = "computed here, Git blob SHA-1 of the source checked"
    COMPUTED = "computed here, the source states none"


@dataclass(frozen=True)
class ManifestFile:
    """One file: its path inside the model's folder, its bytes, its SHA-256 and where that hash comes from."""

    path: str
    size_bytes: int
    sha256: str
    origin: HashOrigin


@dataclass(frozen=True)
class Manifest:
    """Every file of one revision of a model.

    - `source`: canonical, without revision. `requested_revision`: what was asked for; `revision`: the commit it was.
    """

    source: str
    requested_revision: str
    revision: str
    files: tuple[ManifestFile, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    def text(self) -> str:
        """The document: keys in one order, files by path, one line each, a newline at the end."""
        head = {
            "format": FORMAT,
            "source": self.source,
            "requested_revision": self.requested_revision,
            "revision": self.revision,
            "total_bytes": self.total_bytes,
        }
        rows = [
            json.dumps(
                {"bytes": file.size_bytes, "path": file.path, "sha256": file.sha256, "origin": file.origin.value}
            )
            for file in sorted(self.files, key=lambda file: file.path)
        ]
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        return "\n".join(["{", *lines, '  "files": [', ",\n".join(f"    {row}" for row in rows), "  ]", "}", ""])

    @property
    def digest(self) -> str:
        """SHA-256 of the document, 64 hexadecimal digits."""
        return hashlib.sha256(self.text().encode()).hexdigest()


def parse_manifest(text: str, where: str = "the manifest") -> Manifest:
    """The manifest that `text` holds; raises ManifestError naming `where` and what is wrong."""
    document = _document(text, where)
    try:
        files = tuple(
            ManifestFile(str(row["path"]), int(row["bytes"]), str(row["sha256"]), HashOrigin(row["origin"]))
            for row in document["files"]
        )
        manifest = Manifest(
            str(document["source"]), str(document["requested_revision"]), str(document["revision"]), files
        )
        total = int(document["total_bytes"])
    except (KeyError, TypeError, ValueError) as wrong:
        raise ManifestError(f"{where} is damaged ({wrong!r}). Run: dormouse weights hydrate") from wrong
    if manifest.total_bytes != total or any(not _SHA256.fullmatch(file.sha256) for file in files):
        raise ManifestError(f"{where} contradicts itself. Run: dormouse weights hydrate")
    return manifest


@dataclass(frozen=True)
class Marker:
    """That every file of a manifest was checked.

    - `manifest_sha256`: the manifest's digest; the other fields repeat it for people and shells.
    - `verified_at`: UTC, such as `2026-12-01T03:45:00Z`. `how`: `download`, `full` or `sample of 3 files`.
    """

    source: str
    requested_revision: str
    revision: str
    files: int
    total_bytes: int
    manifest_sha256: str
    verified_at: str
    how: str

    def text(self) -> str:
        """The document, one line a field."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"


def marker_of(manifest: Manifest, verified_at: str, how: str) -> Marker:
    """The marker for `manifest`."""
    return Marker(
        source=manifest.source,
        requested_revision=manifest.requested_revision,
        revision=manifest.revision,
        files=len(manifest.files),
        total_bytes=manifest.total_bytes,
        manifest_sha256=manifest.digest,
        verified_at=verified_at,
        how=how,
    )


def parse_marker(text: str, where: str = "the marker") -> Marker:
    """The marker that `text` holds; raises ManifestError naming `where`."""
    document = _document(text, where)
    try:
        fields = {name: document[name] for name in Marker.__dataclass_fields__}
        marker = Marker(**fields)
    except (KeyError, TypeError) as wrong:
        raise ManifestError(f"{where} is damaged ({wrong!r}). Run: dormouse weights verify --full") from wrong
    return marker


def _document(text: str, where: str) -> Mapping[str, Any]:
    try:
        document: object = json.loads(text)
    except ValueError as wrong:
        raise ManifestError(f"{where} is no JSON ({wrong}). Run: dormouse weights hydrate") from wrong
    if not isinstance(document, dict) or cast("dict[str, object]", document).get("format") != FORMAT:
        raise ManifestError(f"{where} is not of format {FORMAT}. Run: dormouse weights hydrate")
    return cast("Mapping[str, Any]", document)

"""What a source lists at one fixed revision, as every origin gives it and as the volume remembers it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

from serving.weights.file_set import RepositoryFile


@dataclass(frozen=True)
class Listing:
    """The files of one revision.

    - `source`: canonical, what the marker will name. `requested_revision`: what was asked for; `revision`: the commit.
    - `origin`: the source and revision as they were asked for; another than `source` where a copy stands in for it.
    - `complete`: whether the listing is a whole chosen set already (the manifest of a copy).
    """

    source: str
    requested_revision: str
    revision: str
    origin: str
    files: tuple[RepositoryFile, ...]
    complete: bool = False

    def text(self) -> str:
        """The document that the volume keeps."""
        return json.dumps(asdict(self), indent=1)


def parse_listing(text: str) -> Listing | None:
    """The listing in `text`; None where it is damaged: it is asked for again."""
    try:
        document = cast("dict[str, Any]", json.loads(text))
        document["files"] = tuple(RepositoryFile(**row) for row in document["files"])
        return Listing(**document)
    except (ValueError, KeyError, TypeError):
        return None


class Origin(Protocol):
    """Somebody who has the files."""

    def listing(self) -> Listing:
        """All files at the revision that is asked for now; raises HydrateError saying what would work."""
        ...

    def request(self, listing: Listing, path: str) -> tuple[str, dict[str, str]]:
        """The address and the headers that fetch one file."""
        ...

    def refusal(self, status: int, headers: Mapping[str, str], what: str) -> str:
        """In words why `what` was refused with `status`, and what would work."""
        ...

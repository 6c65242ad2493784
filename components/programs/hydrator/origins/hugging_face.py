"""The Hugging Face hub, or a mirror that speaks its API."""

import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.listing import Listing
from components.programs.hydrator.transport import Transport, host_of
from serving.weights.file_set import RepositoryFile
from serving.weights.sources import WeightSource

_TOKEN_KEY = "dormouse:huggingFaceTokenSecret"  # noqa: S105  # the key's name


class HuggingFace:
    """One repository on a hub at `endpoint`; `token` may be ""."""

    def __init__(self, source: WeightSource, endpoint: str, token: str, transport: Transport) -> None:
        """Ask nothing yet."""
        self._source = source
        self._endpoint = endpoint
        self._token = token
        self._transport = transport

    def listing(self) -> Listing:
        """Every file at the commit that the revision is now; raises HydrateError."""
        repository, revision = self._source.location, self._source.revision
        url = f"{self._endpoint}/api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true"
        answer, text = self._transport.text(url, self._headers(), f"the list of files of {self._source}")
        if answer.status != 200:
            raise HydrateError(self.refusal(answer.status, answer.headers, "the list of files"))
        try:
            document = cast("dict[str, Any]", json.loads(text))
            commit = str(document["sha"])
            files = tuple(_file(row) for row in document["siblings"])
        except (ValueError, KeyError, TypeError) as wrong:
            raise HydrateError(
                f"{host_of(url)} answered something else than the hub's list of files ({wrong!r}). Is HF_ENDPOINT "
                "(dormouse:huggingFaceEndpoint) the address of a hub or mirror?"
            ) from wrong
        return Listing(self._source.address, revision, commit, str(self._source), files)

    def request(self, listing: Listing, path: str) -> tuple[str, dict[str, str]]:
        """The address of a file at the listing's commit."""
        url = f"{self._endpoint}/{self._source.location}/resolve/{listing.revision}/{quote(path)}"
        return url, self._headers()

    def refusal(self, status: int, headers: Mapping[str, str], what: str) -> str:
        """Why, by the hub's own X-Error-Code where it gives one."""
        repository, code = self._source.location, headers.get("x-error-code", "")
        page = f"{self._endpoint}/{repository}"
        start = f"{host_of(self._endpoint)} refuses {what} of {repository} ({status}{f' {code}' if code else ''})"
        if code == "RevisionNotFound":
            return f"{start}: the repository has no revision {self._source.revision!r}. See {page}/commits"
        if code == "EntryNotFound":
            return f"{start}: the file is gone from revision {self._source.revision!r}. See {page}/tree/main"
        if status == 404 or (code == "RepoNotFound" and self._token):
            return (
                f"{start}: no repository {repository} with revision {self._source.revision!r}, or it is private and "
                f"the token may not see it. Check dormouse:weightsSource and dormouse:weightsRevision"
            )
        if status in (401, 403) and not self._token:
            return (
                f"{start}: it is gated or private, and no token is set. Accept its licence at {page}, make a read token "
                f"and run: pulumi config set --secret {_TOKEN_KEY}"
            )
        if status in (401, 403):
            return (
                f"{start}: the token of {_TOKEN_KEY} is not let in. Accept the licence at {page} with the account that "
                "the token belongs to, and check that the token may read gated repositories"
            )
        return f"{start}. Look at {page}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _file(row: Mapping[str, Any]) -> RepositoryFile:
    lfs: Mapping[str, Any] = row.get("lfs") or {}
    size_bytes = int(lfs.get("size", row.get("size", "none stated")))
    sha256 = str(lfs.get("sha256") or "")
    # Some mirrors state no blob ids; a small file's SHA-256 is then computed here alone, as the manifest says.
    git_sha1 = "" if sha256 else str(row.get("blobId") or "")
    return RepositoryFile(str(row["rfilename"]), size_bytes, sha256, git_sha1)

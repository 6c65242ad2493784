"""ModelScope: states a SHA-256 for every file; a branch is fixed to its newest commit where the API names it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.listing import Listing
from components.programs.hydrator.transport import Transport, host_of
from serving.weights.file_set import RepositoryFile
from serving.weights.sources import WeightSource, is_commit


class ModelScope:
    """One repository on ModelScope at `endpoint`."""

    def __init__(self, source: WeightSource, endpoint: str, transport: Transport) -> None:
        """Ask nothing yet."""
        self._source = source
        self._endpoint = endpoint
        self._transport = transport
        self._api = f"{endpoint}/api/v1/models/{source.location}"

    def listing(self) -> Listing:
        """Every file at the commit that the revision is now; raises HydrateError."""
        revision = self._source.revision
        commit = revision if self._source.pinned else self._newest_commit(revision)
        url = f"{self._api}/repo/files?Revision={quote(commit or revision, safe='')}&Recursive=true"
        document = self._ask(url, "the list of files")
        try:
            rows = [row for row in document["Data"]["Files"] if row["Type"] == "blob"]
            files = tuple(
                RepositoryFile(str(row["Path"]), int(row["Size"]), str(row.get("Sha256") or "").lower()) for row in rows
            )
        except (KeyError, TypeError, ValueError) as wrong:
            raise HydrateError(f"{host_of(url)} answered something else than a list of files ({wrong!r})") from wrong
        if not commit:
            # Without a commit the files themselves name the state: their hashes are what is proven anyway.
            names = "".join(f"{file.path} {file.sha256}\n" for file in sorted(files, key=lambda file: file.path))
            commit = f"{revision}-{hashlib.sha256(names.encode()).hexdigest()[:16]}"
        return Listing(self._source.address, revision, commit, str(self._source), files)

    def request(self, listing: Listing, path: str) -> tuple[str, dict[str, str]]:
        """The address of a file at the listing's commit."""
        revision = listing.revision if is_commit(listing.revision) else listing.requested_revision
        return f"{self._api}/repo?Revision={quote(revision, safe='')}&FilePath={quote(path, safe='')}", {}

    def refusal(self, status: int, headers: Mapping[str, str], what: str) -> str:
        """Why, in words."""
        del headers
        place = f"{self._endpoint}/models/{self._source.location}"
        start = f"{host_of(self._endpoint)} refuses {what} of {self._source.location} ({status})"
        if status == 404:
            return (
                f"{start}: no repository {self._source.location} with revision {self._source.revision!r}. "
                f"Check dormouse:weightsSource and dormouse:weightsRevision against {place}"
            )
        return f"{start}: private or gated models of ModelScope cannot be fetched; see {place}, or take hf:// or s3://"

    def _newest_commit(self, revision: str) -> str:
        """The commit's name; "" where the API does not say."""
        url = f"{self._api}/commits/{quote(revision, safe='')}?PageNumber=1&PageSize=1"
        answer, text = self._transport.text(url, {}, f"the commits of {self._source}")
        try:
            commit = str(json.loads(text)["Data"]["Commit"][0]["Id"]) if answer.status == 200 else ""
        except (ValueError, KeyError, IndexError, TypeError):
            return ""
        return commit if is_commit(commit) else ""

    def _ask(self, url: str, what: str) -> Mapping[str, Any]:
        answer, text = self._transport.text(url, {}, f"{what} of {self._source}")
        if answer.status != 200:
            raise HydrateError(self.refusal(answer.status, answer.headers, what))
        try:
            return cast("Mapping[str, Any]", json.loads(text))
        except ValueError as wrong:
            raise HydrateError(f"{host_of(url)} answered no JSON for {what} ({wrong})") from wrong

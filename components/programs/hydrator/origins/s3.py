"""A prefix in S3: a copy that a hydrator made, with its manifest, or files that somebody put there."""

import hashlib
from collections.abc import Mapping

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.listing import Listing
from components.programs.hydrator.s3.client import S3Client
from components.programs.hydrator.s3.signing import EMPTY_SHA256
from serving.weights.file_set import RepositoryFile
from serving.weights.manifest import parse_manifest, parse_marker
from serving.weights.marker import MANIFEST_PATH, MARKER_PATH, STATE_FOLDER
from serving.weights.sources import WeightSource


class S3Origin:
    """Weights below `source`'s prefix."""

    def __init__(self, source: WeightSource, client: S3Client) -> None:
        """Ask nothing yet."""
        self._source = source
        self._client = client

    def listing(self) -> Listing:
        """The manifest's files where the copy is a finished one of ours, else every object below the prefix."""
        bucket = self._source.bucket
        marker = self._client.text(bucket, self._key(MARKER_PATH))
        manifest = self._client.text(bucket, self._key(MANIFEST_PATH))
        if marker and manifest:
            held = parse_manifest(manifest, f"{self._source}/{MANIFEST_PATH}")
            if parse_marker(marker, f"{self._source}/{MARKER_PATH}").manifest_sha256 != held.digest:
                raise HydrateError(
                    f"the copy in {self._source} is being written anew: its marker is not of its manifest. Let "
                    "`dormouse weights hydrate` with the copy finish first"
                )
            files = tuple(RepositoryFile(file.path, file.size_bytes, file.sha256) for file in held.files)
            return Listing(held.source, held.requested_revision, held.revision, str(self._source), files, complete=True)
        if marker is not None or manifest is not None:
            raise HydrateError(
                f"the copy in {self._source} is not finished: {MARKER_PATH} is missing or empty. Run the hydrate that fills it "
                "again; it goes on where it stopped"
            )
        return self._plain_listing()

    def request(self, listing: Listing, path: str) -> tuple[str, dict[str, str]]:
        """The object's address with a signature that is good now."""
        del listing
        url = self._client.address(self._source.bucket, self._key(path))
        return url, self._client.sign("GET", url, {}, EMPTY_SHA256)

    def refusal(self, status: int, headers: Mapping[str, str], what: str) -> str:
        """Why, in words."""
        del headers
        return self._client.refusal(status, f"{what} below {self._source}")

    def _plain_listing(self) -> Listing:
        below = self._key("")
        files = tuple(
            RepositoryFile(found.key.removeprefix(below), found.size_bytes)
            for found in self._client.objects(self._source.bucket, below)
            if not found.key.endswith("/") and not found.key.removeprefix(below).startswith(f"{STATE_FOLDER}/")
        )
        if not files:
            raise HydrateError(f"nothing lies below {self._source}. Check dormouse:weightsSource and the region")
        names = "".join(f"{file.path} {file.size_bytes}\n" for file in files)
        revision = f"listing-{hashlib.sha256(names.encode()).hexdigest()[:16]}"
        return Listing(self._source.address, "", revision, str(self._source), files)

    def _key(self, path: str) -> str:
        return f"{self._source.prefix}/{path}" if self._source.prefix else path

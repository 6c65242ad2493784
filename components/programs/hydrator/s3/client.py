"""The few S3 calls that a hydrator makes, each tried again while that may help."""

import base64
import hashlib
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET  # the answers are S3's own, over TLS

from components.programs.hydrator.faults import HydrateError, TransferError
from components.programs.hydrator.s3.credentials import CredentialSource
from components.programs.hydrator.s3.signing import EMPTY_SHA256, object_url, signed_headers
from components.programs.hydrator.transport import Answer, Transport

SHA256_METADATA = "x-amz-meta-dormouse-sha256"


@dataclass(frozen=True)
class UploadedPart:
    """One part of a multipart upload: number from 1, bytes, ETag, SHA-256 in base64."""

    number: int
    size_bytes: int
    etag: str
    sha256_base64: str


@dataclass(frozen=True)
class StoredObject:
    """One object: key, bytes, and where a HEAD was made, the SHA-256 that the copy noted with it."""

    key: str
    size_bytes: int
    sha256: str = ""


class S3Client:
    """S3 in `region`; `endpoint` "" is AWS."""

    def __init__(self, transport: Transport, region: str, endpoint: str) -> None:
        """Ask nothing yet."""
        self._transport = transport
        self._region = region
        self._endpoint = endpoint
        self._credentials = CredentialSource(transport)

    def address(self, bucket: str, key: str) -> str:
        """The address of an object."""
        return object_url(self._endpoint, bucket, self._region, key)

    def sign(self, method: str, url: str, headers: Mapping[str, str], payload_sha256: str) -> dict[str, str]:
        """`headers`, signed now."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        held = self._credentials.current()
        return signed_headers(method, url, headers, payload_sha256, self._region, held, stamp)

    def objects(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """Every object below `prefix`."""
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
            _, text = self._call("GET", bucket, "", query)
            tree = _tree(text)
            for row in _all(tree, "Contents"):
                yield StoredObject(_text(row, "Key"), int(_text(row, "Size")))
            token = _text(tree, "NextContinuationToken")
            if not token:
                return

    def text(self, bucket: str, key: str) -> str | None:
        """A small object's text; None where there is none."""
        headers, text = self._call("GET", bucket, key, {}, missing=True)
        return None if headers is None else text

    def head(self, bucket: str, key: str) -> StoredObject | None:
        """An object's size and noted SHA-256; None where there is none."""
        headers, _ = self._call("HEAD", bucket, key, {}, missing=True)
        if headers is None:
            return None
        return StoredObject(key, int(headers.get("content-length", "0")), headers.get(SHA256_METADATA, ""))

    def put(self, bucket: str, key: str, data: bytes, sha256: str = "") -> None:
        """Store a small object; S3 checks its SHA-256."""
        digest = hashlib.sha256(data)
        headers = {"x-amz-checksum-sha256": base64.b64encode(digest.digest()).decode()}
        if sha256:
            headers[SHA256_METADATA] = sha256
        self._call("PUT", bucket, key, {}, headers, data)

    def begin_upload(self, bucket: str, key: str, sha256: str) -> str:
        """Begin a multipart upload of a file with `sha256`; its id."""
        headers = {"x-amz-checksum-algorithm": "SHA256", SHA256_METADATA: sha256}
        _, text = self._call("POST", bucket, key, {"uploads": ""}, headers)
        return _text(_tree(text), "UploadId")

    def parts(self, bucket: str, key: str, upload_id: str) -> dict[int, UploadedPart] | None:
        """The parts that are there; None where S3 knows no such upload any more."""
        found: dict[int, UploadedPart] = {}
        marker = ""
        while True:
            query = {"uploadId": upload_id, **({"part-number-marker": marker} if marker else {})}
            headers, text = self._call("GET", bucket, key, query, missing=True)
            if headers is None:
                return None
            tree = _tree(text)
            for row in _all(tree, "Part"):
                number = int(_text(row, "PartNumber"))
                checksum = _text(row, "ChecksumSHA256")
                found[number] = UploadedPart(number, int(_text(row, "Size")), _text(row, "ETag"), checksum)
            if _text(tree, "IsTruncated") != "true":
                return found
            marker = _text(tree, "NextPartNumberMarker")

    def put_part(self, bucket: str, key: str, upload_id: str, number: int, data: bytes) -> UploadedPart:
        """Send one part; S3 checks its SHA-256."""
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        query = {"partNumber": str(number), "uploadId": upload_id}
        headers, _ = self._call("PUT", bucket, key, query, {"x-amz-checksum-sha256": checksum}, data)
        assert headers is not None
        return UploadedPart(number, len(data), headers.get("etag", ""), checksum)

    def finish_upload(
        self, bucket: str, key: str, upload_id: str, parts: Mapping[int, UploadedPart], sha256: str
    ) -> None:
        """Make one object, of a file with `sha256`, out of all parts."""
        rows = "".join(
            f"<Part><PartNumber>{part.number}</PartNumber><ETag>{part.etag}</ETag>"
            + (f"<ChecksumSHA256>{part.sha256_base64}</ChecksumSHA256>" if part.sha256_base64 else "")
            + "</Part>"
            for _, part in sorted(parts.items())
        )
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        headers, text = self._call("POST", bucket, key, {"uploadId": upload_id}, {}, body, missing=True)
        if headers is None:
            # No such upload any more: an earlier attempt whose answer was lost may have finished it.
            found = self.head(bucket, key)
            if found is None or found.sha256 != sha256:
                raise HydrateError(f"the upload of s3://{bucket}/{key} is gone. Run it again: the file is sent anew")
            return
        # S3 may answer 200 and only then find an error (API reference, CompleteMultipartUpload).
        if _tree(text).tag.rpartition("}")[2] == "Error":
            raise HydrateError(f"S3 could not put s3://{bucket}/{key} together: {_text(_tree(text), 'Message')}")

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """Drop an upload's parts, which would be billed."""
        self._call("DELETE", bucket, key, {"uploadId": upload_id}, missing=True)

    def refusal(self, status: int, what: str, code: str = "") -> str:
        """In words why S3 refused `what`."""
        start = f"S3 refuses {what} ({status}{f' {code}' if code else ''})"
        if status == 301:
            return f"{start}: the bucket is in another region than AWS_REGION={self._region}"
        if status == 403:
            return (
                f"{start}: the pod's role may not, or the bucket belongs to somebody else. It needs s3:ListBucket on the "
                "bucket and s3:GetObject, for a copy s3:PutObject and s3:AbortMultipartUpload, below the prefix"
            )
        if status == 404:
            return f"{start}: no such bucket or key. Check dormouse:weightsSource and the bucket's name"
        return start

    @contextmanager
    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Generator[tuple[Answer, str]]:
        payload = hashlib.sha256(body).hexdigest() if body else EMPTY_SHA256
        signed = self.sign(method, url, headers, payload)
        with self._transport.request(url, signed, method=method, body=body) as answer:
            answer.check_transient()
            yield answer, answer.text()

    def _call(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        missing: bool = False,
    ) -> tuple[Mapping[str, str] | None, str]:
        """Headers and text; headers None where `missing` is allowed and the thing is."""
        address = self.address(bucket, key)
        url = address + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        what = f"{method} s3://{bucket}/{key}"
        patience = self._transport.patience()
        while True:
            try:
                with self._once(method, url, headers or {}, body) as (answer, text):
                    if answer.status < 300:
                        return answer.headers, text
                    code = _text(_tree(text), "Code") if text else ""
                    if answer.status == 404 and missing and code != "NoSuchBucket":
                        return None, ""
                    if code not in ("RequestTimeout", "SlowDown"):
                        raise HydrateError(self.refusal(answer.status, what, code))
                    broken = TransferError(f"S3 answered {code}")
            except TransferError as failed:
                broken = failed
            patience.wait_after(broken, what)


def _tree(text: str) -> Any:
    try:
        return ET.fromstring(text)  # noqa: S314
    except ET.ParseError:
        return ET.Element("none")


def _all(tree: Any, name: str) -> list[Any]:
    return [child for child in tree if child.tag.rpartition("}")[2] == name]


def _text(tree: Any, name: str) -> str:
    found = _all(tree, name)
    return (found[0].text or "") if found else ""

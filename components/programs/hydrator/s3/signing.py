"""AWS Signature Version 4 for S3 requests (AWS General Reference, "Create a signed AWS API request")."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlsplit

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """Keys that sign; `expires_at_s` in Unix time, None where they do not expire."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_at_s: float | None = None


def signed_headers(
    method: str,
    url: str,
    headers: Mapping[str, str],
    payload_sha256: str,
    region: str,
    credentials: Credentials,
    amz_date: str,
) -> dict[str, str]:
    """`headers` with what signs them.

    - `url`: path and query as they are sent, percent-encoded as `object_url` does. `payload_sha256`: hexadecimal.
    - `amz_date`: UTC such as `20261201T034500Z`.
    """
    split = urlsplit(url)
    sent = {**headers, "x-amz-date": amz_date, "x-amz-content-sha256": payload_sha256}
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token
    named = {name.lower(): " ".join(text.split()) for name, text in sent.items()} | {"host": split.netloc}
    # Range and the like stay unsigned: only what S3 demands and what changes the meaning is bound.
    bound = sorted(name for name in named if name == "host" or name.startswith("x-amz-"))
    pairs = sorted((quote(name, safe="-_.~"), quote(text, safe="-_.~")) for name, text in parse_qsl(split.query, True))
    canonical = "\n".join(
        [
            method,
            split.path or "/",
            "&".join(f"{name}={text}" for name, text in pairs),
            *(f"{name}:{named[name]}" for name in bound),
            "",
            ";".join(bound),
            payload_sha256,
        ]
    )
    scope = f"{amz_date[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{digest}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (amz_date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    sent["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={';'.join(bound)}, "
        f"Signature={signature}"
    )
    return sent


def object_url(endpoint: str, bucket: str, region: str, key: str) -> str:
    """The address of an object; `endpoint` "" is AWS. Dots in a bucket's name do not fit AWS's certificate."""
    path = quote(key, safe="/-_.~")
    if endpoint:
        return f"{endpoint}/{bucket}/{path}"
    if "." in bucket:
        return f"https://s3.{region}.amazonaws.com/{bucket}/{path}"
    return f"https://{bucket}.s3.{region}.amazonaws.com/{path}"

"""One HTTP question to a public service: status and headers, no redirect followed, no body kept beyond a little."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from serving.errors import DormouseError

_TIMEOUT_S = 10.0
_LARGEST_BODY_BYTES = 65_536


@dataclass(frozen=True)
class Answer:
    """Status, headers by lower-case name, and the first 64 KiB of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask_web(method: str, url: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Ask once; raises OSError or http.client.HTTPException where nobody answers, DormouseError for no HTTP URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DormouseError(f"{url!r} is no address; accepted: one that starts with https://")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, headers={"User-Agent": "dormouse", **(headers or {})})
        response = connection.getresponse()
        named = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, named, response.read(_LARGEST_BODY_BYTES))
    finally:
        connection.close()

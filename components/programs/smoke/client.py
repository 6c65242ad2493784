"""Requests to an OpenAI-shaped server, plain and streamed, with the standard library."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit


class NoAnswer(Exception):  # noqa: N818 - what happened, in words for people
    """No HTTP answer came: refused, reset, timed out, or no HTTP at all."""


@dataclass(frozen=True)
class Reply:
    """A whole answer: status and body; `document` is the body as JSON, empty where it is none."""

    status: int
    text: str

    @property
    def document(self) -> Mapping[str, Any]:
        """The body as a JSON object."""
        try:
            value: object = json.loads(self.text)
        except ValueError:
            return {}
        return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


class Client:
    """One server at `url` (with or without `/v1` at its end); the key never shows in an error."""

    def __init__(self, url: str, key: str, timeout_s: float = 600.0, authority_path: str | None = None) -> None:
        """Connect to nothing yet; raises ValueError for an address that is none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address; accepted: http://HOST:PORT or https://HOST")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._secure else 80)
        self._base = parts.path.rstrip("/").removesuffix("/v1")
        self._key = key
        self._timeout_s = timeout_s
        self._authority_path = authority_path

    def get(self, path: str, *, key: str | None = None) -> Reply:
        """GET; `key` in place of the right one, empty for none."""
        return self._whole("GET", path, None, key)

    def post(self, path: str, body: Mapping[str, Any], *, key: str | None = None) -> Reply:
        """POST a JSON body."""
        return self._whole("POST", path, body, key)

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any] | None]:
        """The events of a streamed answer; None is `[DONE]`. Closing the iterator hangs up.

        Raises NoAnswer where the answer is no stream.
        """
        connection = self._connect()
        try:
            connection.request("POST", self._base + path, json.dumps(body), self._headers(None))
            answer = connection.getresponse()
            if answer.status != 200 or "text/event-stream" not in answer.headers.get("Content-Type", ""):
                raise NoAnswer(
                    f"status {answer.status} instead of a stream: {answer.read(400).decode(errors='replace')}"
                )
            while line := answer.readline():
                data = line.decode(errors="replace").strip()
                if data.startswith("data:"):
                    text = data.removeprefix("data:").strip()
                    yield None if text == "[DONE]" else cast("Mapping[str, Any]", json.loads(text))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def _whole(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None) -> Reply:
        connection = self._connect()
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, self._base + path, text, self._headers(key))
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context(cafile=self._authority_path)
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _headers(self, key: str | None) -> dict[str, str]:
        given = self._key if key is None else key
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        return {**headers, "Authorization": f"Bearer {given}"} if given else headers

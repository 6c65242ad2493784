"""HTTP over the standard library: redirects that keep secrets at home, silence that ends a connection, stop at once."""

import contextlib
import http.client
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any
from urllib.parse import urljoin, urlsplit

from components.programs.hydrator.faults import STOPPED, StoppedError, TransferError
from components.programs.hydrator.patience import Patience

_MOST_REDIRECTS = 6
_MOST_TEXT_BYTES = 64 * 2**20
_AGENT = "dormouse-hydrator"
_SHUT_BOTH_WAYS = 2


@dataclass(frozen=True)
class Answer:
    """A server's answer whose body is still to be read.

    - `url`: who answered in the end. `redirected`: whether that is another host than the one that was asked.
    """

    status: int
    headers: Mapping[str, str]
    url: str
    redirected: bool
    body: http.client.HTTPResponse

    def text(self, limit_bytes: int = _MOST_TEXT_BYTES) -> str:
        """The body as text, of at most `limit_bytes`; raises TransferError where it ends too early."""
        data = self.body.read(limit_bytes)
        if self.body.length and len(data) < limit_bytes:
            raise TransferError(f"{host_of(self.url)} ended the answer too early")
        return data.decode("utf-8", "replace")

    def check_transient(self) -> None:
        """Raise TransferError for an answer that another attempt may better: 408, 425, 429, 5xx."""
        if self.status in (408, 425, 429) or self.status >= 500:
            raise TransferError(f"{host_of(self.url)} answered {self.status}", _asked_wait_s(self.headers))


class Transport:
    """Makes requests; knows every open connection, so that all can be closed at once."""

    def __init__(self, stall_s: float, attempts: int, backoff_s: float, stop: Event) -> None:
        """Give up a connection after `stall_s` of silence; `stop` ends waits and requests."""
        self.stop = stop
        self._stall_s = stall_s
        self._attempts = attempts
        self._backoff_s = backoff_s
        # Sockets and not connections: http.client lets go of its socket once a closing answer has begun.
        self._open: dict[http.client.HTTPConnection, Any] = {}
        self._lock = Lock()
        self._tls = ssl.create_default_context()

    def patience(self) -> Patience:
        """A fresh count of attempts."""
        return Patience(self._attempts, self._backoff_s, self.stop)

    def check_stop(self) -> None:
        """Raise StoppedError when told to end."""
        if self.stop.is_set():
            raise StoppedError(STOPPED)

    def close_all(self) -> None:
        """End every connection, also those that wait for bytes in another thread."""
        with self._lock:
            sockets = list(self._open.values())
        for opened in sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(_SHUT_BOTH_WAYS)

    @contextmanager
    def request(
        self, url: str, headers: Mapping[str, str], *, method: str = "GET", body: bytes | None = None
    ) -> Generator[Answer]:
        """The answer of `url`, redirects followed; every broken connection is a TransferError.

        Authorization and AWS's own headers stay with the host that was asked first.
        """
        home, sent = _place(url), {"User-Agent": _AGENT, **headers}
        connection: http.client.HTTPConnection | None = None
        try:
            for _ in range(_MOST_REDIRECTS):
                self.check_stop()
                at_home = _place(url) == home
                shown = {name: text for name, text in sent.items() if at_home or not _secret(name)}
                connection = self._connect(url)
                split = urlsplit(url)
                target = (split.path or "/") + (f"?{split.query}" if split.query else "")
                connection.request(method, target, body=body, headers=shown)
                answer = connection.getresponse()
                location = answer.headers.get("Location")
                if answer.status in (301, 302, 303, 307, 308) and location and method in ("GET", "HEAD"):
                    self._close(connection)
                    url = urljoin(url, location)
                    continue
                found = {name.lower(): text for name, text in answer.headers.items()}
                yield Answer(answer.status, found, url, not at_home, answer)
                return
            raise TransferError(f"{host_of(url)} redirects in a circle")
        except (OSError, http.client.HTTPException, ValueError) as broken:
            if self.stop.is_set():
                raise StoppedError(STOPPED) from broken
            # Only a TLS socket that was shut under its reader raises ValueError; any other is a fault of ours.
            # (A certificate that is not trusted is both, by Python's own tree.)
            if not isinstance(broken, (OSError, http.client.HTTPException)):
                raise
            raise TransferError(self._in_words(broken, url)) from broken
        finally:
            if connection is not None:
                self._close(connection)

    def text(self, url: str, headers: Mapping[str, str], what: str) -> tuple[Answer, str]:
        """The answer and its whole body, tried again while that may help."""
        patience = self.patience()
        while True:
            try:
                with self.request(url, headers) as answer:
                    answer.check_transient()
                    return answer, answer.text()
            except TransferError as broken:
                patience.wait_after(broken, what)

    def _connect(self, url: str) -> http.client.HTTPConnection:
        split = urlsplit(url)
        if not split.hostname:
            raise TransferError(f"{url!r} is no address")
        connection = (
            http.client.HTTPSConnection(split.hostname, split.port, timeout=self._stall_s, context=self._tls)
            if split.scheme == "https"
            else http.client.HTTPConnection(split.hostname, split.port, timeout=self._stall_s)
        )
        connection.connect()
        with self._lock:
            self._open[connection] = connection.sock
        self.check_stop()  # whoever closed all may have come before this one was known
        return connection

    def _close(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._open.pop(connection, None)
        connection.close()

    def _in_words(self, broken: Exception, url: str) -> str:
        host = host_of(url)
        if isinstance(broken, TimeoutError):
            return f"{host} sent nothing for {self._stall_s:g} s"
        if isinstance(broken, ssl.SSLCertVerificationError):
            return f"the certificate of {host} is not trusted: {broken.verify_message}"
        if isinstance(broken, http.client.IncompleteRead):
            return f"{host} ended the answer too early"
        return f"the connection to {host} broke off: {broken or type(broken).__name__}"


def host_of(url: str) -> str:
    """The host of `url`, for messages: a signed address is a secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _secret(header: str) -> bool:
    return header.lower() == "authorization" or header.lower().startswith("x-amz-")


def _place(url: str) -> tuple[str, str | None, int | None]:
    split = urlsplit(url)
    return split.scheme, split.hostname, split.port or {"https": 443, "http": 80}.get(split.scheme)


def _asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds, from a number or a date."""
    given = headers.get("retry-after", "").strip()
    if given.isdecimal():
        return float(given)
    try:
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None

"""What the commands share that talk to a server: its address, its key, its metrics page."""

import argparse
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from components.programs.smoke.client import Client

KEY_VARIABLE = "DORMOUSE_API_KEY"
_WHERE = "the command line"


def add_key_file(parser: Any) -> None:
    """The option that names the key; a key itself never stands on a command line."""
    parser.add_argument("--key-file", metavar="FILE", help=f"a file with the API key (default: ${KEY_VARIABLE})")


def read_key(file: str | None) -> str:
    """The API key out of `file`, else out of the environment; raises ConfigurationError where there is none."""
    if file is None:
        if not (key := os.environ.get(KEY_VARIABLE, "")):
            raise ConfigurationError(
                [Fault("--key-file", "nothing", f"a file with the key, or ${KEY_VARIABLE}")], _WHERE
            )
        return key
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigurationError([Fault("--key-file", f"{file} ({why})", "a file with the API key")], _WHERE) from error


def open_client(arguments: argparse.Namespace, key: str, timeout_s: float, ca_file: str | None = None) -> "Client":
    """A client for `arguments.url`; raises ConfigurationError where that is no address or nothing listens there."""
    from components.programs.smoke.client import Client

    try:
        client = Client(arguments.url, key, timeout_s, ca_file)
    except ValueError as error:
        raise ConfigurationError([Fault("URL", arguments.url, "http://HOST:PORT or https://HOST")], _WHERE) from error
    if why := unreachable(arguments.url):
        accepted = "a server that listens; `dormouse connect` opens a stack's on 127.0.0.1:8000"
        raise ConfigurationError([Fault("URL", why, accepted)], _WHERE)
    return client


def read_page(url: str) -> str:
    """A metrics page; raises OSError or ValueError, in words, where it cannot be read."""
    with urllib.request.urlopen(url, timeout=15) as answer:  # noqa: S310 - the user's own address
        return answer.read().decode(errors="replace")


def unreachable(url: str, timeout_s: float = 5.0) -> str:
    """Why nothing listens at the address, or an empty text where something does."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=timeout_s).close()
    except OSError as error:
        return f"{parts.hostname}:{port}: {error.strerror or error}"
    return ""


PAGE_ERRORS = (OSError, urllib.error.URLError, ValueError)
"""What `read_page` raises."""

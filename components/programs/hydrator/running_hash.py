"""A SHA-256 that can be put down and taken up again, so that a resumed download reads nothing twice.

Python's hashlib cannot save its state. OpenSSL's own SHA256_CTX is a plain structure of 112 bytes that can: 8 + 16 words
of state and input, two words of length, two of bookkeeping (openssl/sha.h, since 0.9; declared deprecated in 3.0 and
still exported). Whether the library that is found really works so is tried once; otherwise hashlib does the work, and
a resumed file's part on disk is read once more, never downloaded.
"""

import ctypes
import hashlib
from functools import cache
from typing import Any, Protocol

_CONTEXT_BYTES = 112
_LIBRARIES = ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so")


class RunningHash(Protocol):
    """A SHA-256 over what `update` was given so far."""

    def update(self, data: bytes) -> None:
        """Go on with `data`."""
        ...

    def hexdigest(self) -> str:
        """The digest so far; `update` may follow."""
        ...

    def state(self) -> str:
        """What `resume_sha256` takes up again; "" where it cannot be put down."""
        ...


def new_sha256() -> RunningHash:
    """A hash over nothing yet."""
    library = _openssl()
    return _PortableSha256() if library is None else _OpenSslSha256(library)


def resume_sha256(state: str) -> RunningHash | None:
    """The hash that `state` was taken from; None where it cannot be taken up here."""
    library = _openssl()
    try:
        raw = bytes.fromhex(state)
    except ValueError:
        return None
    return _OpenSslSha256(library, raw) if library is not None and len(raw) == _CONTEXT_BYTES else None


class _PortableSha256:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, data: bytes) -> None:
        self._hash.update(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def state(self) -> str:
        return ""


class _OpenSslSha256:
    def __init__(self, library: Any, raw: bytes | None = None) -> None:
        self._library = library
        self._context = ctypes.create_string_buffer(raw or bytes(_CONTEXT_BYTES), _CONTEXT_BYTES)
        if raw is None:
            library.SHA256_Init(self._context)

    def update(self, data: bytes) -> None:
        self._library.SHA256_Update(self._context, data, len(data))

    def hexdigest(self) -> str:
        digest = ctypes.create_string_buffer(32)
        self._library.SHA256_Final(digest, ctypes.create_string_buffer(self._context.raw, _CONTEXT_BYTES))
        return digest.raw.hex()

    def state(self) -> str:
        return self._context.raw.hex()


@cache
def _openssl() -> Any:
    """The library, or None where none works."""
    for name in _LIBRARIES:
        try:
            library: Any = ctypes.CDLL(name)
            library.SHA256_Init.argtypes = [ctypes.c_char_p]
            library.SHA256_Update.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
            library.SHA256_Final.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        except (OSError, AttributeError):
            continue
        if _works(library):
            return library
    return None


def _works(library: Any) -> bool:
    text = bytes(range(256)) * 5
    for cut in (0, 63, 64, 700):
        first = _OpenSslSha256(library)
        first.update(text[:cut])
        second = _OpenSslSha256(library, bytes.fromhex(first.state()))
        second.update(text[cut:])
        if second.hexdigest() != hashlib.sha256(text).hexdigest():
            return False
    return True

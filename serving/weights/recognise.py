"""What a file is that is not what it should be: a Git LFS pointer, an error page, cut off, or filled up with zeros."""

import json
from typing import Any, cast

LFS_POINTER_START = b"version https://git-lfs"
TAIL_BYTES = 4096
_LENGTH_BYTES = 8
_LONGEST_HEADER_BYTES = 100_000_000
_PAGE_STARTS = (b"<!doctype html", b"<html", b"<?xml", b"<head")


def is_lfs_pointer(head: bytes) -> bool:
    """Whether a file that begins with `head` is the pointer that Git LFS leaves in a clone, and not the file."""
    return head.startswith(LFS_POINTER_START)


def is_page(head: bytes) -> bool:
    """Whether a file that begins with `head` is an HTML or XML answer of a server, and not the file."""
    return head.lstrip().lower().startswith(_PAGE_STARTS)


def safetensors_bytes(header_and_more: bytes) -> int | None:
    """How long a safetensors file is by its own header; None where the header is none or not all there."""
    if len(header_and_more) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(header_and_more[:_LENGTH_BYTES], "little")
    if not 2 <= length <= _LONGEST_HEADER_BYTES or len(header_and_more) < _LENGTH_BYTES + length:
        return None
    try:
        header: object = json.loads(header_and_more[_LENGTH_BYTES : _LENGTH_BYTES + length])
    except ValueError:
        return None
    if not isinstance(header, dict):
        return None
    ends: list[int] = [0]
    for name, tensor in cast("dict[str, Any]", header).items():
        if name != "__metadata__":
            try:
                ends.append(int(tensor["data_offsets"][1]))
            except (KeyError, IndexError, TypeError, ValueError):
                return None
    return _LENGTH_BYTES + length + max(ends)


def recognise(path: str, size_bytes: int, head: bytes, tail: bytes, wanted_bytes: int) -> str:
    """In words what is wrong with a file, "" where nothing is to be seen.

    - `head`: its first bytes, for safetensors with the whole JSON header. `tail`: its last `TAIL_BYTES` or fewer.
    - `wanted_bytes`: the size that the source states.
    """
    if is_lfs_pointer(head):
        return "a Git LFS pointer instead of the file: the source serves Git's text and not the data behind it"
    if is_page(head) and not path.endswith((".html", ".xml")):
        return "an HTML or XML page instead of the file: a proxy, a login page or an error of the source"
    if size_bytes < wanted_bytes:
        return f"cut off: {size_bytes:,} of {wanted_bytes:,} bytes"
    if size_bytes > wanted_bytes:
        return f"too long: {size_bytes:,} bytes instead of {wanted_bytes:,}"
    if path.endswith(".safetensors"):
        stated = safetensors_bytes(head)
        if stated is None:
            return "no readable safetensors header"
        if stated != size_bytes:
            return f"its header describes {stated:,} bytes, the file has {size_bytes:,}"
    if len(tail) == TAIL_BYTES and not any(tail):
        return f"zeros at its end ({TAIL_BYTES:,} bytes or more): the disk never got the data"
    return ""

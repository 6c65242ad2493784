import json

import pytest

from serving.weights.recognise import TAIL_BYTES, recognise, safetensors_bytes

HEADER = json.dumps(
    {"__metadata__": {"format": "pt"}, "a": {"dtype": "U8", "shape": [90_000], "data_offsets": [0, 90_000]}}
)
HEAD = len(HEADER).to_bytes(8, "little") + HEADER.encode()
SIZE = len(HEAD) + 90_000
SOME = bytes(range(256)) * 16


@pytest.mark.parametrize(
    ("size", "head", "tail", "words"),
    [
        (134, b"version https://git-lfs.github.com/spec/v1\noid", b"", "a Git LFS pointer"),
        (900, b"  <!DOCTYPE html><html>", b"", "an HTML or XML page"),
        (900, b'<?xml version="1.0"?><Error>', b"", "an HTML or XML page"),
        (SIZE - 5, HEAD, SOME, f"cut off: {SIZE - 5:,} of {SIZE:,} bytes"),
        (SIZE + 5, HEAD, SOME, "too long"),
        (SIZE, b"\xff" * 200, SOME, "no readable safetensors header"),
        (SIZE, HEAD, bytes(TAIL_BYTES), "zeros at its end"),
        (SIZE, HEAD, SOME, ""),
    ],
)
def test_what_a_file_is_instead(size: int, head: bytes, tail: bytes, words: str) -> None:
    found = recognise("model.safetensors", size, head, tail, SIZE)
    assert found.startswith(words) if words else found == ""


def test_a_header_that_describes_another_length_is_seen() -> None:
    assert safetensors_bytes(HEAD + b"data") == SIZE
    assert recognise("m.safetensors", SIZE + 7, HEAD, SOME, SIZE + 7) == (
        f"its header describes {SIZE:,} bytes, the file has {SIZE + 7:,}"
    )


@pytest.mark.parametrize(
    "head",
    [b"", HEAD[:50], b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{!", b"\x0c" + bytes(7) + b'{"a": "tens"}'],
)
def test_what_is_no_header_is_none(head: bytes) -> None:
    assert safetensors_bytes(head) is None

"""What a server's init container does with a volume: the very shell command, run by a shell."""

import hashlib
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.weights.manifest import (
    HashOrigin,
    Manifest,
    ManifestError,
    ManifestFile,
    marker_of,
    parse_manifest,
    parse_marker,
)
from serving.weights.marker import MANIFEST_PATH, MARKER_PATH, ExpectedWeights, check_command, hydrator_target

COMMIT = "c" * 40
FILES = {"config.json": b"{}", "model-00001-of-00002.safetensors": b"x" * 300, "sub/code.py": b"#"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kimi k2.5"
    for path, data in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    rows = [ManifestFile(p, len(d), hashlib.sha256(d).hexdigest(), HashOrigin.SOURCE) for p, d in FILES.items()]
    manifest = Manifest("hf://moonshotai/Kimi-K2.5", "main", COMMIT, tuple(rows))
    (folder / MANIFEST_PATH).parent.mkdir()
    (folder / MANIFEST_PATH).write_text(manifest.text())
    (folder / MARKER_PATH).write_text(marker_of(manifest, "2026-12-01T03:45:00Z", "download").text())
    return folder


def check(
    folder: Path, source: str = "hf://moonshotai/Kimi-K2.5", revision: str = "main", beside: tuple[str, ...] = ()
) -> tuple[int, str]:
    log = folder.parent / "termination-log"
    log.unlink(missing_ok=True)
    ran = subprocess.run(
        check_command(ExpectedWeights(str(folder), source, revision, beside)),
        capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "DORMOUSE_TERMINATION_LOG": str(log)},
    )  # fmt: skip
    assert not log.exists() or log.read_text() == ran.stderr
    return ran.returncode, ran.stderr or ran.stdout


@pytest.mark.parametrize("revision", ["main", COMMIT, ""])
def test_whole_weights_let_the_server_start(folder: Path, revision: str) -> None:
    status, said = check(folder, revision=revision)
    assert (status, said) == (
        0, f"weights-check: 3 files, 303 bytes of hf://moonshotai/Kimi-K2.5 at {COMMIT} are there\n"
    )  # fmt: skip
    assert check(folder, source="")[0] == 0


def test_anything_else_is_refused_with_what_to_run(folder: Path) -> None:
    marker, manifest, shard = folder / MARKER_PATH, folder / MANIFEST_PATH, folder / "model-00001-of-00002.safetensors"
    refused = {
        "another source": check(folder, source="hf://moonshotai/Kimi-K2.6"),
        "another revision": check(folder, revision="d" * 40),
        "no folder": check(folder.parent / "other"),
    }
    shard.write_bytes(b"x" * 299)
    refused["short file"] = check(folder)
    shard.unlink()
    refused["no file"] = check(folder)
    shard.write_bytes(b"x" * 300)
    text = manifest.read_text()
    manifest.write_text(text.replace("300", "301"))
    refused["other manifest"] = check(folder)
    manifest.write_text(text)
    marker.rename(folder / "aside")
    refused["no marker"] = check(folder)
    (folder / "aside").rename(marker)
    manifest.unlink()
    refused["no manifest"] = check(folder)
    assert {status for status, _ in refused.values()} == {1}
    assert all("dormouse weights hydrate" in said for _, said in refused.values())
    assert "holds hf://moonshotai/Kimi-K2.5, not hf://moonshotai/Kimi-K2.6" in refused["another source"][1]
    assert f"{shard.name} is missing or has another size" in refused["short file"][1] == refused["no file"][1]
    assert "is not the one that was verified" in refused["other manifest"][1]
    assert "verified.json is missing, so the download never finished" in refused["no marker"][1]


def test_a_file_that_the_repository_does_not_hold_is_asked_for_by_name(folder: Path) -> None:
    wanted = ("encodings/o200k_base.tiktoken",)
    status, said = check(folder, beside=wanted)
    assert status == 1
    assert f"{folder}/{wanted[0]} is missing, which the model's own repository does not hold" in said
    assert "weightsSource s3://" in said
    (folder / "encodings").mkdir()
    (folder / wanted[0]).write_bytes(b"IQ== 0")
    assert check(folder, beside=wanted)[0] == 0


def test_the_hydrator_fills_the_folder_that_the_server_reads() -> None:
    assert hydrator_target("kimi-k2.5") == "/weights/kimi-k2.5"


PATHS = st.from_regex(r"[a-z0-9_.+-]{1,9}(/[a-z0-9_+-]{1,9})?", fullmatch=True)
FILE_ROWS = st.builds(
    ManifestFile, PATHS, st.integers(0, 10**12), st.binary(max_size=4).map(lambda b: hashlib.sha256(b).hexdigest()),
    st.sampled_from(HashOrigin),
)  # fmt: skip


@given(rows=st.lists(FILE_ROWS, max_size=6, unique_by=lambda row: row.path), shuffled=st.randoms())
def test_a_manifest_has_one_form_and_comes_back(rows: list[ManifestFile], shuffled: random.Random) -> None:
    manifest = Manifest("hf://a/b", "main", COMMIT, tuple(rows))
    shuffled.shuffle(rows)
    assert Manifest("hf://a/b", "main", COMMIT, tuple(rows)).text() == manifest.text()
    again = parse_manifest(manifest.text())
    assert (again.digest, again.total_bytes) == (manifest.digest, manifest.total_bytes)
    marker = marker_of(manifest, "2026-12-01T00:00:00Z", "full")
    assert parse_marker(marker.text()) == marker


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "not of format 1"),
        ('{"format": 1}', "damaged"),
        (
            '{"format": 1, "source": "", "requested_revision": "", "revision": "", "total_bytes": 1, "files": []}',
            "contra",
        ),
    ],
)
def test_a_damaged_manifest_says_what_to_run(text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=f"{words}.*dormouse weights hydrate"):
        parse_manifest(text)

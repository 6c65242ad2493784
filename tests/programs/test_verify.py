from pathlib import Path
from threading import Event

import pytest

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.verify import verify
from components.programs.hydrator.volume import Volume
from serving.weights.manifest import Marker
from tests.programs.hub import Hub
from tests.programs.model import MadeUpModel
from tests.programs.running import assert_whole, run, settings_of


def check(target: Path, sample: int = 0) -> Marker:
    progress = Progress(None, 60, lambda _: None)
    return verify(Volume(target), Transport(1, 1, 0.01, Event()), progress, sample, 4)


def flip(path: Path, at: int) -> None:
    """As a bad disk does: the time stamp stays."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    import os

    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_whole_weights_pass_and_the_marker_says_how(hub: Hub, tmp_path: Path) -> None:
    target = tmp_path / "model"
    run(settings_of(hub, target))
    assert check(target, sample=2).how == "download"
    assert check(target).how == "full"
    stored = Volume(target).marker()
    assert stored is not None
    assert stored.how == "full"


def test_one_flipped_byte_is_found_named_and_healed_alone(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target, shard = tmp_path / "model", model.shards[2]
    run(settings_of(hub, target))
    flip(target / shard, 777_777)
    assert run(settings_of(hub, target)).outcome == "already verified", "nothing is read to start"
    with pytest.raises(HydrateError, match=f"1 of 10 files .*\n  - {shard}: SHA-256 is"):
        check(target)
    assert not (target / ".dormouse" / "verified.json").exists()
    ran = run(settings_of(hub, target))
    assert ran.progress.downloaded_bytes == len(model.files[shard])
    assert_whole(target, model)


def test_a_sample_sees_sizes_headers_and_ends_of_every_file(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target, (first, second, third, _) = tmp_path / "model", model.shards
    run(settings_of(hub, target))
    with (target / first).open("r+b") as file:
        file.truncate(500_000)
    (target / second).unlink()
    with (target / third).open("r+b") as file:
        file.seek(-8192, 2)
        file.write(bytes(8192))
    with pytest.raises(HydrateError) as found:
        check(target, sample=1)
    assert f"{first}: 500,000 bytes instead of" in str(found.value)
    assert f"{second}: missing" in str(found.value)
    assert f"{third}: SHA-256 is" in str(found.value)
    run(settings_of(hub, target))
    assert_whole(target, model)


def test_a_sample_of_a_folder_that_was_never_verified_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HydrateError, match="no manifest to compare with. Run: dormouse weights hydrate"):
        check(tmp_path, sample=3)

"""The hydrator against a hub over real sockets, with every fault that a hub, a network and a disk can have."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.programs.hydrator.faults import BusyError, DiskFullError, HydrateError
from components.programs.hydrator.settings import read_settings
from components.programs.hydrator.volume import Volume
from serving.errors import ConfigurationError
from serving.weights.manifest import HashOrigin
from tests.programs.hub import REPOSITORY, Hub, Trouble
from tests.programs.model import COMMIT, MadeUpModel
from tests.programs.running import assert_whole, run, settings_of

SHARD = "model-00002-of-00004.safetensors"


def test_a_whole_model_comes_proven_and_nothing_else(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    ran = run(settings_of(hub, target, DORMOUSE_REQUIRED="tiktoken.model,*.py,chat_template.jinja"))
    assert ran.outcome == "verified"
    assert_whole(target, model)
    assert ran.progress.downloaded_bytes == model.total_bytes == hub.served_bytes
    marker, manifest = Volume(target).marker(), Volume(target).manifest()
    assert marker is not None
    assert manifest is not None
    assert (marker.source, marker.requested_revision, marker.revision) == (f"hf://{REPOSITORY}", "main", COMMIT)
    assert (marker.files, marker.total_bytes) == (len(model.files), model.total_bytes)
    origins = {file.path: file.origin for file in manifest.files}
    assert origins[SHARD] is HashOrigin.SOURCE
    assert origins["config.json"] is HashOrigin.GIT
    assert {file.path: file.sha256 for file in manifest.files} == {
        path: hashlib.sha256(data).hexdigest() for path, data in model.files.items()
    }
    written = json.loads((target / ".dormouse" / "progress.json").read_text())
    assert (written["done_bytes"], written["total_bytes"]) == (model.total_bytes, model.total_bytes)


def test_a_verified_folder_is_left_alone_without_asking_anybody(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    settings = settings_of(hub, target)
    run(settings)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*.json") if path.name != "progress.json"}
    asked = len(hub.requests)
    began_s = time.thread_time()
    again = run(settings)
    assert time.thread_time() - began_s < 1
    assert (again.outcome, again.progress.downloaded_bytes, len(hub.requests)) == ("already verified", 0, asked)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("troubles", "most_extra_bytes"),
    [
        ([Trouble(status=429, headers={"Retry-After": "0"}), Trouble(status=503)], 0),
        ([Trouble(reset_at=700_000)], 0),
        ([Trouble(end_at=400_000), Trouble(end_at=900_000)], 0),
        ([Trouble(stall_at=600_001)], 0),
        ([Trouble(bytes_per_s=20_000_000)], 0),
        ([Trouble(end_at=300_000), Trouble(ignore_range=True)], 300_000),
        ([Trouble(end_at=300_000), Trouble(content_range="bytes 5-6/7")], 1_300_000),
        ([Trouble(end_at=300_000), Trouble(etag='"other"')], 300_000),
        ([Trouble(end_at=300_000), Trouble(status=416)], 300_000),
        ([Trouble(status=403)], 0),
        ([Trouble(body=b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")], 100),
        ([Trouble(body=b"<!DOCTYPE html><html>Sign in to the hotel's network</html>")], 100),
    ],
    ids=[
        "busy", "reset", "truncated twice", "stalled", "slow", "ignores Range", "wrong Content-Range", "other ETag",
        "no such range", "signed address ran out", "LFS pointer", "HTML page",
    ],
)  # fmt: skip
def test_a_fault_on_the_way_is_survived_and_nothing_is_fetched_twice(
    troubles: list[Trouble], most_extra_bytes: int, hub: Hub, model: MadeUpModel, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    hub.troubles[SHARD] = list(troubles)
    silent = any(trouble.stall_at is not None for trouble in troubles)
    # A machine under load may be silent too: then it connects once more, and goes on at the same byte.
    more = {"DORMOUSE_STALL_S": "0.3", "DORMOUSE_ATTEMPTS": "1000"} if silent else {}
    ran = run(settings_of(hub, target, **more))
    assert hub.troubles[SHARD] == [], "every trouble was met"
    assert_whole(target, model)
    assert ran.progress.downloaded_bytes <= model.total_bytes + most_extra_bytes
    assert any(line.startswith(f"{SHARD}: ") for line in ran.lines) == (troubles != [Trouble(bytes_per_s=20_000_000)])


def test_a_break_is_resumed_at_the_very_byte(hub: Hub, tmp_path: Path) -> None:
    hub.troubles[SHARD] = [Trouble(end_at=654_321)]
    run(settings_of(hub, tmp_path / "model"))
    assert [request.range for request in hub.requests_of(SHARD)] == ["", "bytes=654321-"]


def test_a_file_that_changes_at_the_source_on_the_way_is_not_mixed(
    hub: Hub, model: MadeUpModel, tmp_path: Path
) -> None:
    """Without a look at the ETag the whole file would be fetched, found wrong and fetched again."""
    target = tmp_path / "model"
    before = b"\0" * len(model.files[SHARD])
    hub.troubles[SHARD] = [Trouble(body=before, end_at=300_000)]
    ran = run(settings_of(hub, target))
    assert_whole(target, model)
    assert ran.progress.downloaded_bytes == model.total_bytes + 300_000
    assert ran.progress.again_bytes == 300_000


def test_one_flipped_byte_costs_that_file_alone(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    hub.troubles[SHARD] = [Trouble(flip_at=555_555)]
    ran = run(settings_of(hub, target))
    assert_whole(target, model)
    assert ran.progress.downloaded_bytes == model.total_bytes + len(model.files[SHARD])
    assert ran.progress.again_bytes == len(model.files[SHARD])


def test_a_source_that_stays_wrong_is_named_and_the_rest_is_kept(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    zeros = model.files[SHARD][:-8192] + bytes(8192)
    hub.troubles[SHARD] = [Trouble(body=zeros), Trouble(body=zeros)]
    hub.troubles["config.json"] = []
    with pytest.raises(HydrateError, match=f"{SHARD}: twice not what .* zeros at its end"):
        run(settings_of(hub, target))
    assert not (target / ".dormouse" / "verified.json").exists()
    assert not (target / SHARD).exists()
    ran = run(settings_of(hub, target))
    assert ran.progress.downloaded_bytes == len(model.files[SHARD])
    assert_whole(target, model)


def test_it_gives_up_in_words_and_goes_on_next_time(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    hub.troubles[SHARD] = [Trouble(end_at=500_000)] + [Trouble(status=502)] * 5
    with pytest.raises(HydrateError, match=f"{SHARD}: gave up after 5 attempts .* answered 502"):
        run(settings_of(hub, target))
    hub.troubles.clear()
    ran = run(settings_of(hub, target))
    assert (ran.progress.resumed_bytes, ran.progress.reread_bytes) == (500_000, 0)
    assert ran.progress.downloaded_bytes == len(model.files[SHARD]) - 500_000
    assert_whole(target, model)


def test_the_token_stays_with_the_hub(model: MadeUpModel, tmp_path: Path) -> None:
    with Hub(model, token="hf_secret") as hub:
        ran = run(settings_of(hub, tmp_path / "model", HF_TOKEN="hf_secret"))
        assert {request.authorization for request in hub.requests if request.place == "hub"} == {"Bearer hf_secret"}
        assert {request.authorization for request in hub.requests if request.place == "content"} == {""}
    assert not any("hf_secret" in line or "signature=" in line for line in ran.lines)
    assert not any("hf_secret" in path.read_text() for path in (tmp_path / "model" / ".dormouse").glob("*.json*"))


@pytest.mark.parametrize(
    ("refuse", "token", "words"),
    [
        ((401, "GatedRepo"), "", "Accept its licence at .*made-up/Model-1T.*dormouse:huggingFaceTokenSecret"),
        ((403, "GatedRepo"), "hf_x", "the token of dormouse:huggingFaceTokenSecret is not let in"),
        ((404, "RepoNotFound"), "", "no repository made-up/Model-1T with revision 'main'"),
        ((404, "RevisionNotFound"), "", "has no revision 'main'"),
    ],
)
def test_a_refusal_says_what_would_work(
    refuse: tuple[int, str], token: str, words: str, hub: Hub, tmp_path: Path
) -> None:
    hub.refuse = refuse
    with pytest.raises(HydrateError, match=words):
        run(settings_of(hub, tmp_path / "model", HF_TOKEN=token))


def test_a_list_of_files_is_asked_for_again_until_it_is_whole(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    cut_off = Trouble(body=b'{"sha": "0123', headers={"Content-Length": "5000"})
    hub.troubles["listing"] = [Trouble(status=503), cut_off, Trouble(status=429)]
    run(settings_of(hub, tmp_path / "model"))
    assert_whole(tmp_path / "model", model)
    hub.troubles["listing"] = [Trouble(body=b"<html>a mirror's start page</html>")]
    with pytest.raises(HydrateError, match="Is HF_ENDPOINT .* the address of a hub or mirror"):
        run(settings_of(hub, tmp_path / "other"))


def test_files_that_the_model_needs_and_the_source_lacks_are_all_named(hub: Hub, tmp_path: Path) -> None:
    everything = {
        path: data
        for path, data in hub.model.everything.items()
        if path not in (SHARD, "tiktoken.model", "config.json")
    }
    hub.model = MadeUpModel(everything, {})
    with pytest.raises(ConfigurationError) as refused:
        run(settings_of(hub, tmp_path / "model", DORMOUSE_REQUIRED="tiktoken.model"))
    assert {fault.key for fault in refused.value.faults} == {
        "config.json", "tokenizer", "tiktoken.model", "model-*.safetensors"
    }  # fmt: skip
    assert hub.served_bytes == 0


def test_an_index_that_names_more_shards_stops_before_any_shard(hub: Hub, tmp_path: Path) -> None:
    index = {"metadata": {}, "weight_map": {"a": SHARD, "b": "model-extra.safetensors"}}
    files = {**hub.model.files, "model.safetensors.index.json": json.dumps(index).encode()}
    hub.model = MadeUpModel(files, {})
    with pytest.raises(ConfigurationError, match="shards that are not listed: model-extra.safetensors"):
        run(settings_of(hub, tmp_path / "model"))
    assert not any(request.path.endswith(".safetensors") for request in hub.requests)


def test_a_branch_that_moves_between_runs_does_not_mix_revisions(hub: Hub, tmp_path: Path) -> None:
    target = tmp_path / "model"
    hub.troubles[SHARD] = [Trouble(status=500)] * 5
    with pytest.raises(HydrateError):
        run(settings_of(hub, target))
    hub.troubles["listing"] = [Trouble(status=500)] * 5  # whoever asked again would fail
    run(settings_of(hub, target))
    marker = Volume(target).marker()
    assert marker is not None
    assert marker.revision == COMMIT
    assert len(hub.troubles["listing"]) == 5


def test_another_revision_replaces_what_changed_alone(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    run(settings_of(hub, target))
    changed = {path: data for path, data in model.files.items() if path != "modeling_made_up.py"}
    changed["config.json"] = b'{"architectures": ["MadeUp"], "newer": true}'
    hub.model, hub.commit = MadeUpModel(changed, {}), "f" * 40
    hub.troubles["config.json"] = [Trouble(status=500)] * 5
    with pytest.raises(HydrateError):
        run(settings_of(hub, target, DORMOUSE_REVISION="f" * 40))
    assert Volume(target).marker() is None, "no server may start on half of each"
    ran = run(settings_of(hub, target, DORMOUSE_REVISION="f" * 40))
    assert ran.progress.downloaded_bytes == len(changed["config.json"])
    assert_whole(target, hub.model)


def test_files_that_somebody_put_there_are_read_and_not_fetched(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / SHARD).write_bytes(model.files[SHARD])
    (target / "tiktoken.model").write_bytes(bytes(len(model.files["tiktoken.model"])))
    ran = run(settings_of(hub, target))
    assert ran.progress.downloaded_bytes == model.total_bytes - len(model.files[SHARD])
    assert hub.requests_of(SHARD) == []
    assert_whole(target, model)


def test_two_hydrators_do_not_fight(hub: Hub, tmp_path: Path) -> None:
    settings = settings_of(hub, tmp_path / "model")
    volume = Volume(settings.target)
    volume.prepare()
    with volume.locked(), pytest.raises(BusyError, match=f"another hydrator works on .*process {os.getpid()}"):
        run(settings)
    assert run(settings).outcome == "verified"


def test_model_scope_states_hashes_for_all_and_fixes_the_commit(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target = tmp_path / "model"
    more = {"DORMOUSE_SOURCE": f"modelscope://{REPOSITORY}", "MODELSCOPE_ENDPOINT": hub.url}
    run(settings_of(hub, target, **more))
    assert_whole(target, model)
    manifest = Volume(target).manifest()
    assert manifest is not None
    assert {file.origin for file in manifest.files} == {HashOrigin.SOURCE}
    assert (manifest.source, manifest.revision) == (f"modelscope://{REPOSITORY}", COMMIT)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real file system of 24 MiB."""
    import subprocess

    folder = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_too_small_is_seen_before_anything_is_fetched(small_disk: Path, hub: Hub) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(7 * 2**20))
    with pytest.raises(DiskFullError, match=r"too small: .* MiB are missing. Raise dormouse:weightsSizeGib"):
        run(settings_of(hub, small_disk / "model"))
    assert hub.served_bytes == 0
    filler.unlink()


def test_a_disk_that_fills_on_the_way_stops_and_goes_on_when_there_is_room(
    small_disk: Path, hub: Hub, model: MadeUpModel
) -> None:
    target, filler = small_disk / "model", small_disk / "filler"
    taken = False

    def room(volume: Any) -> int:
        nonlocal taken
        taken = True
        return 2**40

    with pytest.MonkeyPatch.context() as patch:
        # Somebody else takes the room after it was looked at.
        filler.write_bytes(bytes(21 * 2**20 + 2**19))
        patch.setattr(Volume, "free_bytes", room)
        with pytest.raises(DiskFullError, match="too small"):
            run(settings_of(hub, target))
    assert taken
    kept = hub.served_bytes
    assert kept < model.total_bytes
    assert not (target / ".dormouse" / "verified.json").exists()
    filler.unlink()
    ran = run(settings_of(hub, target))
    assert_whole(target, model)
    assert ran.progress.resumed_bytes > 0


def test_settings_name_every_fault_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_settings({
            "DORMOUSE_SOURCE": "http://x", "DORMOUSE_TARGET": "relative", "DORMOUSE_CONCURRENCY": "many",
            "DORMOUSE_COPY_TO": "hf://a/b", "HF_ENDPOINT": "hub",
        })  # fmt: skip
    assert {fault.key for fault in refused.value.faults} == {
        "DORMOUSE_SOURCE", "DORMOUSE_TARGET", "DORMOUSE_CONCURRENCY", "DORMOUSE_COPY_TO", "HF_ENDPOINT", "AWS_REGION"
    }  # fmt: skip
    assert "hf_" not in repr(
        read_settings({"DORMOUSE_SOURCE": "hf://a/b", "DORMOUSE_TARGET": "/w", "HF_TOKEN": "hf_s"})
    )

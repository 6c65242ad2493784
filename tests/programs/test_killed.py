"""The hydrator as a pod runs it, one file in a bare Python, killed with SIGKILL and started again."""

import json
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.programs.hydrator import running_hash
from components.programs.hydrator.volume import Volume
from tests.programs.hub import Hub, Trouble, wait_until
from tests.programs.model import MadeUpModel
from tests.programs.running import assert_whole, environment, finish, last_words, run, settings_of, start

BUFFERED_BYTES = 6 * 2**20  # what Linux may hold in a connection's two buffers


def on_disk_bytes(target: Path) -> int:
    """Bytes of the files and of their parts; -1 while one of them is being renamed."""
    try:
        parts = sum(path.stat().st_size for path in target.glob(".dormouse/parts/*.part"))
        return parts + sum(path.stat().st_size for path in target.iterdir() if path.is_file())
    except FileNotFoundError:
        return -1


def test_killed_at_60_percent_it_fetches_exactly_the_rest(
    hub: Hub, model: MadeUpModel, program: Path, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    hub.hold_after(model.total_bytes * 6 // 10)
    process = start(program, environment(hub, target, DORMOUSE_STALL_S="60"))
    wait_until(hub.gate.is_set)
    wait_until(lambda: on_disk_bytes(target) == hub.served_bytes)
    process.kill()
    finish(process)
    kept = hub.served_bytes
    assert not (target / ".dormouse" / "verified.json").exists()

    hub.hold_after(None)
    status, output = finish(start(program, environment(hub, target)))
    assert status == 0, output
    assert_whole(target, model)
    words = last_words(target)
    assert words["downloaded_bytes"] == hub.served_bytes == model.total_bytes - kept
    # Everything behind the last checkpoint of four files at once is read again; nothing before it is.
    assert words["reread_bytes"] <= 4 * 2**18 + 2**20
    assert words["resumed_bytes"] > words["reread_bytes"]


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(share=st.floats(0.0, 0.999))
def test_killed_anywhere_it_ends_with_the_right_bytes(
    share: float, hub: Hub, model: MadeUpModel, program: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model"
        hub.hold_after(int(model.total_bytes * share))
        process = start(program, environment(hub, target, DORMOUSE_STALL_S="60"))
        wait_until(hub.gate.is_set)
        process.kill()
        finish(process)
        first = hub.served_bytes
        hub.hold_after(None)
        ran = run(settings_of(hub, target))
        assert_whole(target, model)
        # What was under way when the process died is all that may come twice.
        assert first + ran.progress.downloaded_bytes <= model.total_bytes + 4 * BUFFERED_BYTES
        assert ran.progress.downloaded_bytes <= model.total_bytes - ran.progress.resumed_bytes


def test_told_to_end_it_keeps_what_it_has_and_says_so(
    hub: Hub, model: MadeUpModel, program: Path, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    hub.hold_after(model.total_bytes // 2)
    process = start(program, environment(hub, target, DORMOUSE_STALL_S="600", DORMOUSE_CHECKPOINT_MIB="64"))
    wait_until(hub.gate.is_set)
    wait_until(lambda: on_disk_bytes(target) == hub.served_bytes)
    process.send_signal(signal.SIGTERM)
    status, output = finish(process)
    assert (status, last_words(target)["outcome"]) == (143, "stopped")
    assert "the next run goes on from it" in output
    kept = hub.served_bytes
    hub.hold_after(None)
    ran = run(settings_of(hub, target))
    assert (ran.progress.reread_bytes, ran.progress.downloaded_bytes) == (0, model.total_bytes - kept)
    assert_whole(target, model)


def test_without_openssl_the_part_on_disk_is_read_and_nothing_is_fetched_again(
    hub: Hub, model: MadeUpModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, shard = tmp_path / "model", model.shards[1]
    hub.troubles[shard] = [Trouble(end_at=600_000)] + [Trouble(status=500)] * 5
    with pytest.raises(Exception, match="gave up"):
        run(settings_of(hub, target))
    monkeypatch.setattr(running_hash, "_openssl", lambda: None)
    ran = run(settings_of(hub, target))
    assert (ran.progress.reread_bytes, ran.progress.downloaded_bytes) == (600_000, len(model.files[shard]) - 600_000)
    assert_whole(target, model)


def test_after_a_power_loss_only_what_was_safe_is_trusted(hub: Hub, model: MadeUpModel, tmp_path: Path) -> None:
    target, shard = tmp_path / "model", model.shards[1]
    hub.troubles[shard] = [Trouble(end_at=600_000)] + [Trouble(status=500)] * 5
    with pytest.raises(Exception, match="gave up"):
        run(settings_of(hub, target))
    part = Volume(target).part_path(shard)
    note = json.loads(part.with_suffix(".json").read_text())
    part.with_suffix(".json").write_text(json.dumps({**note, "boot_id": "another start of the machine"}))
    with part.open("ab") as file:
        file.write(bytes(50_000))  # the file system knew the length and never got the data
    ran = run(settings_of(hub, target))
    assert ran.progress.downloaded_bytes == len(model.files[shard]) - 600_000
    assert ran.progress.again_bytes == 0
    assert_whole(target, model)


def test_a_kill_between_the_name_and_its_note_costs_a_read_and_no_download(
    hub: Hub, model: MadeUpModel, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    run(settings_of(hub, target))
    journal = target / ".dormouse" / "finished.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]) + lines[-1][:20])  # cut off in the middle of a line
    (target / ".dormouse" / "verified.json").unlink()
    ran = run(settings_of(hub, target))
    assert ran.progress.downloaded_bytes == 0
    assert_whole(target, model)
    assert run(settings_of(hub, target)).outcome == "already verified"


def test_a_second_run_of_the_program_asks_nobody(hub: Hub, model: MadeUpModel, program: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    run(settings_of(hub, target))
    asked = len(hub.requests)
    status, output = finish(start(program, environment(hub, target)))
    assert (status, output.startswith("already verified: ")) == (0, True)
    words = last_words(target)
    assert (words["downloaded_bytes"], len(hub.requests)) == (0, asked)
    assert words["total_bytes"] == model.total_bytes


def test_wrong_settings_end_with_2_and_a_refusal_with_1(hub: Hub, program: Path, tmp_path: Path) -> None:
    status, output = finish(start(program, {"DORMOUSE_SOURCE": "ftp://x"}))
    assert status == 2
    assert "DORMOUSE_TARGET" in output
    assert "Traceback" not in output
    log = {"DORMOUSE_TERMINATION_LOG": str(tmp_path / "log")}
    status, output = finish(start(program, {**environment(hub, Path("/proc/none")), **log}))
    assert (status, "Traceback" in output) == (1, False)
    assert "must be on the volume and writable by user" in output
    hub.refuse = (401, "GatedRepo")
    status, output = finish(start(program, environment(hub, tmp_path / "model")))
    assert (status, "Traceback" in output) == (1, False)
    words = last_words(tmp_path / "model")
    assert words["outcome"] == "failed"
    assert "Accept its licence" in words["message"]
    assert (tmp_path / "model.last-words").stat().st_size <= 4096

"""`dormouse emit` as a user runs it."""

import json
import stat
from pathlib import Path

import pytest

from infra.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_files_lie_where_they_belong_with_their_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "emit", "systemd", "kimi-k2.5", "--instance-type", "8xH200", "--output", str(tmp_path))
    assert code == 0
    assert f"{tmp_path}/etc/systemd/system/dormouse-vllm.service" in out.splitlines()
    assert stat.S_IMODE((tmp_path / "preflight.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "etc/dormouse/vllm.env").stat().st_mode) == 0o644
    assert "Kimi K2.5 (595.1 GB) on 8xH200, tensor parallel 8" in err
    assert "systemctl enable --now" in err


def test_one_file_is_printed_so_that_it_can_be_piped(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "emit", "k8s", "qwen3-32b", "--instance-type", "2xH100", "--context", "32768")
    assert code == 0
    assert [one["kind"] for one in json.loads(out)["items"]][-1] == "Deployment"
    assert "device-plugin.json" in err
    code, out, _ = run(capsys, "emit", "preflight", "qwen3-32b", "--instance-type", "2xH100", "--json")
    made = json.loads(out)
    assert (code, made["kind"], [one["mode"] for one in made["files"]]) == (0, "preflight", ["0755"])


def test_a_model_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "emit", "compose", "kimi-k2.5", "--instance-type", "4xH200", "--output", str(tmp_path))
    assert (code, out) == (1, "")
    assert "does not fit" in err
    assert list(tmp_path.iterdir()) == []


def test_every_wrong_argument_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(
        capsys, "emit", "systemd", "kimi-k2.5", "--instance-type", "8xH200", "--port", "8000", "--listen", "all"
    )
    assert code == 2
    assert "--port" in err
    assert "--listen" in err
    code, _, err = run(capsys, "emit", "systemd", "kimi")
    assert code == 2
    assert "kimi-k2.5" in err
    assert "--instance-type" in err
    code, _, err = run(capsys, "emit", "command")
    assert (code, "MODEL or --file" in err) == (2, True)
    code, _, err = run(
        capsys, "emit", "systemd", "kimi-k2.5", "--instance-type", "8xH200", "--weights", "/data/my models"
    )
    assert (code, "without spaces" in err) == (2, True)

"""`dormouse connect` up to kubectl, which is stood in for by a script that writes down what it was given."""

import json
import os
import stat
from pathlib import Path

import pytest

from infra.cli.main import main
from tests.jobs.world import NAMESPACE, World


def test_kubectl_is_given_the_service_and_a_private_token(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\ncp "$2" {tmp_path}/kubeconfig\n'
        f'stat -c %a "$2" > {tmp_path}/mode\n',
        encoding="utf-8",
    )
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert main(["connect", "--port", "9001"]) == 0
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert arguments[2:] == [
        "--namespace", NAMESPACE, "port-forward", "--address", "127.0.0.1",
        f"service/{world.outputs.service_name}", f"9001:{world.outputs.service_port}",
    ]  # fmt: skip
    assert (tmp_path / "mode").read_text(encoding="utf-8").strip() == "600"
    config = json.loads((tmp_path / "kubeconfig").read_text(encoding="utf-8"))
    token = config["users"][0]["user"]["token"]
    assert token.startswith("k8s-aws-v1.")
    assert not any(token in argument for argument in arguments)
    assert not Path(arguments[1]).exists()
    shown = capsys.readouterr()
    assert "http://127.0.0.1:9001/v1" in shown.err
    assert token not in shown.out + shown.err


def test_without_kubectl_it_says_what_else_works(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["connect"]) == 1
    said = capsys.readouterr().err
    assert "no `kubectl` on PATH" in said
    assert f".{NAMESPACE}.svc.cluster.local" in said


def test_a_port_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "--port", "http"]) == 2
    assert "a port from 1 to 65535" in capsys.readouterr().err

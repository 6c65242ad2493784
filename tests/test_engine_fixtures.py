"""Parts of the engine tier's fixtures that need no engine: event logs, processes, the `aws` command."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine import aws_cli
from tests.engine.processes import EngineProcessError, LoggedProcess, free_ports
from tests.engine.pulumi_events import read_run

URN = "urn:pulumi:dev::dormouse::dormouse:index:Network$aws:ec2/vpc:Vpc::network"


def _step(kind: str, operation: str, urn: str = URN, **metadata: Any) -> dict[str, Any]:
    return {kind: {"metadata": {"op": operation, "urn": urn, **metadata}}}


def _log(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


class TestEvents:
    def test_a_replacement_counts_once_and_names_its_property(self, tmp_path: Path) -> None:
        log = _log(
            tmp_path,
            _step("resourcePreEvent", "create-replacement", diffs=["cidrBlock"]),
            _step("resOutputsEvent", "create-replacement"),
            _step("resourcePreEvent", "replace", diffs=["cidrBlock"]),
            _step("resourcePreEvent", "delete-replaced"),
            {"summaryEvent": {"resourceChanges": {"replace": 1, "same": 3}}},
        )
        run = read_run("up", log, "text", 1.5, 0)
        assert (run.replaces, run.same, run.changed, run.creates, run.deletes) == (1, 3, 1, 0, 0)
        assert run.urns == {"replace": [URN]}
        assert run.names("replace") == ["aws:ec2/vpc:Vpc::network"]
        assert run.changed_keys == {URN: ["cidrBlock"]}

    def test_a_refresh_is_known_by_what_it_found(self, tmp_path: Path) -> None:
        gone = URN.replace("network", "gone")
        log = _log(
            tmp_path,
            _step("resourcePreEvent", "refresh"),
            _step("resourcePreEvent", "refresh", gone),
            _step("resOutputsEvent", "update", detailedDiff={"tags.Owner": {}}),
            _step("resOutputsEvent", "delete", gone),
            {"summaryEvent": {"resourceChanges": {"update": 1, "delete": 1}}},
        )
        run = read_run("refresh", log, "", 1, 0)
        assert run.urns == {"update": [URN], "delete": [gone]}
        assert run.drifted == [URN, gone]
        assert run.changed_keys == {URN: ["tags.Owner"]}

    def test_drift_that_an_up_found_first_is_not_its_own_change(self, tmp_path: Path) -> None:
        log = _log(
            tmp_path,
            _step("resourcePreEvent", "refresh"),
            _step("resOutputsEvent", "update"),
            _step("resourcePreEvent", "same"),
            {"summaryEvent": {"resourceChanges": {"same": 1}}},
        )
        run = read_run("up", log, "", 1, 0)
        assert run.drifted == [URN]
        assert run.urns == {"same": [URN]}
        assert run.changed == 0

    def test_a_preview_does_not_tell_drift_from_mere_reading(self, tmp_path: Path) -> None:
        log = _log(tmp_path, _step("resourcePreEvent", "refresh"), _step("resOutputsEvent", "refresh"))
        run = read_run("preview", log, "", 1, 0)
        assert (run.drifted, run.urns) == ([], {})

    def test_marks_of_colour_are_taken_out(self, tmp_path: Path) -> None:
        log = _log(tmp_path, {"diagnosticEvent": {"severity": "error", "message": "<{%fg 1%}>quota<{%reset%}>"}})
        run = read_run("up", log, "<{%bold%}>1 errored<{%reset%}>", 1, 255)
        assert run.messages("error") == ["quota"]
        assert run.text == "1 errored"

    def test_messages_are_kept_by_severity_and_blank_ones_dropped(self, tmp_path: Path) -> None:
        said = [("info", "\n"), ("warning", "no storage class\n"), ("error", "quota"), ("debug", "noise")]
        log = _log(tmp_path, *({"diagnosticEvent": {"severity": level, "message": text}} for level, text in said))
        run = read_run("up", log, "", 1, 255)
        assert run.diagnostics == [("warning", "no storage class"), ("error", "quota")]
        assert run.messages("error") == ["quota"]

    def test_an_engine_that_never_started_leaves_no_facts(self, tmp_path: Path) -> None:
        run = read_run("up", tmp_path / "absent", "error: no such stack", 1, 255)
        assert (run.changes, run.urns, run.text) == ({}, {}, "error: no such stack")


class TestProcesses:
    def test_a_process_that_ends_too_early_shows_its_last_words(self, tmp_path: Path) -> None:
        process = LoggedProcess("short", ["/bin/sh", "-c", "echo out of ports >&2; exit 7"], tmp_path)
        with pytest.raises(EngineProcessError, match=r"short ended with 7[\s\S]*out of ports"):
            process.wait_until(lambda: False, 10, "readiness")

    def test_a_process_that_is_never_ready_is_named_with_what_it_lacks(self, tmp_path: Path) -> None:
        process = LoggedProcess("slow", ["/bin/sleep", "30"], tmp_path)
        try:
            with pytest.raises(EngineProcessError, match="slow: readiness not reached in 0 s"):
                process.wait_until(lambda: False, 0.2, "readiness")
        finally:
            process.stop()
        with pytest.raises(EngineProcessError, match="ended with -15"):
            process.require_alive()

    def test_a_process_that_will_not_end_is_killed(self, tmp_path: Path) -> None:
        script = "trap '' TERM; echo trapped; while :; do sleep 0.05; done"
        process = LoggedProcess("stubborn", ["/bin/sh", "-c", script], tmp_path)
        process.wait_until(lambda: "trapped" in process.tail(), 10, "the trap")
        process.stop(patience_s=0.2)
        with pytest.raises(EngineProcessError, match="ended with -9"):
            process.require_alive()

    def test_ports_differ(self) -> None:
        assert len(set(free_ports(8))) == 8


class TestAwsCommand:
    def _run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"}
        plain = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return subprocess.run(
            [sys.executable, aws_cli.__file__, *arguments],
            env={**plain, **keys, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_gives_the_credential_that_kubectl_and_pulumi_read(self) -> None:
        asked = json.dumps({"apiVersion": "client.authentication.k8s.io/v1"})
        answer = self._run(
            *("eks", "get-token", "--cluster-name", "dormouse-dev", "--region", "us-east-2", "--output", "json"),
            KUBERNETES_EXEC_INFO=asked,
        )
        credential = json.loads(answer.stdout)
        assert credential["kind"] == "ExecCredential"
        assert credential["apiVersion"] == "client.authentication.k8s.io/v1"
        prefix, _, body = credential["status"]["token"].partition("k8s-aws-v1.")
        url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
        assert prefix == ""
        assert url.startswith("https://sts.us-east-2.amazonaws.com/?Action=GetCallerIdentity")
        assert "x-k8s-aws-id" in url

    def test_without_a_question_answers_as_the_aws_cli_does(self) -> None:
        answer = self._run("eks", "get-token", "--cluster-name", "x", "--region", "us-east-2")
        assert json.loads(answer.stdout)["apiVersion"] == "client.authentication.k8s.io/v1beta1"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("s3", "ls"), "invalid choice: 's3'"),
            (("eks", "get-token", "--cluster-name", "x"), "You must specify a region"),
        ],
    )
    def test_refuses_everything_else(self, arguments: tuple[str, ...], words: str) -> None:
        answer = self._run(*arguments)
        assert answer.returncode == 2
        assert words in answer.stderr

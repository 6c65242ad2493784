"""The command line itself: help, wrong usage, failures in words, signals."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound

from infra.cli import main as module
from infra.cli.failures import explain
from infra.cli.main import main
from serving.errors import CapacityError, ConfigurationError, Fault

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DORMOUSE_OUTPUTS", raising=False)


@pytest.mark.parametrize("command", ["status", "wake", "hibernate", "plan", "sandbox"])
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes: 0 done" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["wkae"], "unknown command 'wkae'; did you mean `dormouse wake`?"),
        (["hibernat"], "did you mean `dormouse hibernate`?"),
        (["xyzzy"], "unknown command 'xyzzy'; commands: status, wake, hibernate, "),
        (["sandbox", "upp"], "unknown command 'upp'; did you mean `dormouse sandbox up`?"),
        (["wake", "--timeout", "soon"], "'soon'; accepted: seconds, such as 600"),
        (["hibernate", "--drain-timeout", "-3"], "accepted: seconds, such as 600"),
        (["status", "--nonsense"], "--nonsense"),
        (["status"], "accepted: --stack NAME, --outputs FILE, --sandbox"),
        (["status", "--stack", "a", "--sandbox"], "--stack and --sandbox: got together"),
    ],
)
@pytest.mark.usefixtures("no_stack")
def test_wrong_usage(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_help_is_quick_and_light() -> None:
    code = (
        "import sys, time; began = time.perf_counter(); from infra.cli.main import main; main(['--help']);"
        "took = time.perf_counter() - began;"
        "heavy = {'boto3', 'botocore', 'pulumi', 'moto', 'rich'} & set(sys.modules);"
        "print(heavy, took, file=sys.stderr); sys.exit(bool(heavy) or took > 0.3)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for command in ("status", "wake", "hibernate", "plan", "sandbox"):
        assert command in ran.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dormouse ")


def test_ctrl_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("infra.cli.status_command.run", interrupt)
    assert main(["status"]) == 130
    assert "run the same command again to continue" in capsys.readouterr().err


def test_sigterm_ends_with_words() -> None:
    code = (
        "import infra.cli.status_command as s, time, sys, infra.cli.main as m\n"
        "def run(_):\n    print('ready', flush=True); time.sleep(30)\n"
        "s.run = run\nsys.argv = ['dormouse', 'status']\nm.entry()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 143
    assert err == "ended by SIGTERM; run the same command again to continue.\n"


def client_error(code: str, message: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigurationError([Fault("region", "'x'", "us-east-2")]), 2, "region: got 'x'; accepted: us-east-2"),
        (CapacityError("nobody has any"), 1, "nobody has any"),
        (NoCredentialsError(), 1, "no AWS credentials were found; sign in with `aws sso login`"),
        (ProfileNotFound(profile="x"), 1, "`aws configure list-profiles` shows which do"),
        (
            client_error(
                "AccessDeniedException",
                "User: arn:aws:iam::1:user/a is not authorized to perform: eks:UpdateNodegroupConfig on resource: x",
                "UpdateNodegroupConfig",
            ),
            1,
            "AWS denied UpdateNodegroupConfig: the identity lacks the permission eks:UpdateNodegroupConfig.",
        ),
        (
            client_error("UnauthorizedOperation", "You are not authorized", "DescribeInstances"),
            1,
            "AWS denied DescribeInstances: the identity lacks the permission for DescribeInstances.",
        ),
        (client_error("ExpiredToken", "expired", "GetCallerIdentity"), 1, "AWS does not accept these credentials"),
        (client_error("ThrottlingException", "slow", "DescribeNodegroup"), 1, "AWS is throttling DescribeNodegroup"),
        (client_error("ServerException", "broken", "DescribeCluster"), 1, "AWS refused DescribeCluster"),
        (PermissionError(13, "Permission denied", "/x"), 1, "the system refused: Permission denied (/x)"),
        (KeyError("surprise"), 1, "unexpected KeyError: 'surprise'. This is a fault in Dormouse"),
    ],
)
def test_failures_in_words(error: Exception, code: int, words: str) -> None:
    text, exit_code = explain(error)
    assert words in text
    assert exit_code == code


def test_the_traceback_is_there_for_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_arguments: object) -> int:
        raise KeyError("surprise")

    monkeypatch.setattr("infra.cli.status_command.run", fail)
    monkeypatch.setenv("DORMOUSE_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["status"])


def test_a_closed_pipe_is_no_failure() -> None:
    command = f"{sys.executable} -m infra.cli.main wake --help | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_progress_on_a_terminal_shows_steps_and_none_in_a_pipe() -> None:
    code = (
        "from datetime import datetime\n"
        "from infra.cli.progress_view import ProgressView\n"
        "from infra.jobs.progress import Step\n"
        "now = datetime(2026, 11, 30, 12, 30)\n"
        "with ProgressView('looking') as view:\n"
        "    view(Step('capacity', 'asking for [one]', now))\n"
        "    view(Step('loading', 'vLLM loads', now, 120.0))\n"
    )
    piped = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "", "")
    shown = _on_a_terminal([sys.executable, "-c", code])
    assert "12:30:00 asking for [one]" in shown
    assert "12:30:00 vLLM loads" in shown


def _on_a_terminal(command: list[str]) -> str:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(command, cwd=ROOT, stderr=theirs, stdout=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    shown = b""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    process.wait(timeout=10)
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())


def test_every_listed_module_exists() -> None:
    for name, (path, _) in module._COMMANDS.items():
        assert hasattr(__import__(path, fromlist=["add_to"]), "add_to"), name

"""Pulumi's command line on a project of its own, with state, plugins and settings in a temporary folder."""

import importlib.metadata
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .cloud_process import ACCESS_KEY
from .pulumi_events import Run, read_run

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEFAULT_TIMEOUT_S = 300
_TOOLS = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")


class PulumiCommandError(Exception):
    """A Pulumi command failed. `run` holds its text, its diagnostics, and what it had done until then."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(f"pulumi {run.command} ended with {run.exit_code}:\n{run.text}")


class PulumiStack:
    """One stack on Pulumi's own engine.

    - `project`: a folder with Pulumi.yaml. It is not written to: the stack works on a folder of links to it, with
      copies of its Pulumi*.yaml files.
    - `workdir`: an empty folder for state, plugins, configuration and logs.
    - `bin_dir`: the binaries, from `engine/build.py --print-path`.
    - `aws_endpoint_url`: the simulated cloud, or None for programs without AWS resources.
    - `environment`: further variables for the program and the providers.
    """

    def __init__(
        self,
        project: Path,
        workdir: Path,
        bin_dir: Path,
        *,
        aws_endpoint_url: str | None = None,
        stack: str = "dev",
        region: str = "us-east-2",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.stack = stack
        self.folder = workdir / "project"
        self._workdir = workdir
        self._bin = bin_dir
        self._runs = 0
        self._tools = workdir / "tools"
        self._home = workdir / "pulumi-home"
        for folder in (self._tools, self._home, workdir / "state", workdir / "home"):
            folder.mkdir(parents=True)
        _link_project(project, self.folder)
        self._install_tools()
        self._install_plugins(with_aws=aws_endpoint_url is not None)
        self.environment = self._environment(aws_endpoint_url, region, environment or {})
        self._call("stack", "init", stack)

    def set_config(self, key: str, value: str, *, secret: bool = False) -> None:
        """Set a configuration value; `key` may be a path such as `dormouse:capacity[0].zone`."""
        self._call("config", "set", "--path", key, value, "--secret" if secret else "--plaintext")

    def remove_config(self, key: str) -> None:
        """Remove a configuration value."""
        self._call("config", "rm", "--path", key)

    def preview(self, *arguments: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Run:
        """What `up` would do. Raises PulumiCommandError where the program or a provider refuses."""
        return self.run("preview", *arguments, timeout_s=timeout_s)

    def up(self, *arguments: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Run:
        """Make the world as the program says, without a preview before it."""
        return self.run("up", "--yes", "--skip-preview", *arguments, timeout_s=timeout_s)

    def refresh(self, *arguments: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Run:
        """Make the state as the world is; a drifted resource counts as an update."""
        return self.run("refresh", "--yes", "--skip-preview", *arguments, timeout_s=timeout_s)

    def destroy(self, *arguments: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Run:
        """Delete what the stack made."""
        return self.run("destroy", "--yes", "--skip-preview", *arguments, timeout_s=timeout_s)

    def run(self, command: str, *arguments: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Run:
        """Run one engine command on this stack; raises PulumiCommandError unless it ends with 0."""
        self._runs += 1
        event_log = self._workdir / f"events-{self._runs:02}-{command}.jsonl"
        start_s = time.monotonic()
        code, text = self._execute(
            command, "--stack", self.stack, "--diff", f"--event-log={event_log}", *arguments, timeout_s=timeout_s
        )
        run = read_run(command, event_log, text, time.monotonic() - start_s, code)
        if code != 0:
            raise PulumiCommandError(run)
        return run

    def outputs(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """The stack's outputs; secrets read `[secret]` unless asked for."""
        secrets = ["--show-secrets"] if show_secrets else []
        return json.loads(self._call("stack", "output", "--stack", self.stack, "--json", *secrets))

    def state(self) -> dict[str, Any]:
        """The exported state; its resources stand under `["deployment"]["resources"]`."""
        return json.loads(self._call("stack", "export", "--stack", self.stack))

    def resources(self) -> list[dict[str, Any]]:
        """The resources in state."""
        return list(self.state()["deployment"].get("resources", []))

    def remove_everything(self) -> None:
        """Destroy what is left in state, protected or not; does nothing for a stack that is already empty."""
        if self.resources():
            self._call("state", "unprotect", "--all", "--yes", "--stack", self.stack)
            self.destroy()

    def _call(self, *arguments: str) -> str:
        start_s = time.monotonic()
        code, text = self._execute(*arguments, timeout_s=60, standard_output_only_on_success=True)
        if code != 0:
            name = " ".join(arguments[:2])
            raise PulumiCommandError(read_run(name, Path("-"), text, time.monotonic() - start_s, code))
        return text

    def _execute(
        self, *arguments: str, timeout_s: float, standard_output_only_on_success: bool = False
    ) -> tuple[int, str]:
        process = subprocess.Popen(
            [str(self._tools / "pulumi"), "--non-interactive", "--color", "never", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException as stopped:
            # The engine, the language host, the program and the providers are one process group.
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            if isinstance(stopped, subprocess.TimeoutExpired):
                text = f"{output}{errors}\nkilled after {timeout_s:.0f} s"
                return -signal.SIGKILL, text
            raise
        if process.returncode == 0 and standard_output_only_on_success:
            return 0, output
        return process.returncode, output + errors

    def _install_tools(self) -> None:
        # Not the whole bin folder: the engine warns of every provider that it finds on PATH.
        for name in _TOOLS:
            (self._tools / name).symlink_to(self._bin / name)
        aws = self._tools / "aws"
        script = Path(__file__).with_name("aws_cli.py")
        aws.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        aws.chmod(0o755)

    def _install_plugins(self, *, with_aws: bool) -> None:
        version = importlib.metadata.version("pulumi-kubernetes")
        folder = self._home / "plugins" / f"resource-kubernetes-v{version}"
        folder.mkdir(parents=True)
        (folder / "pulumi-resource-kubernetes").symlink_to(self._bin / "pulumi-resource-kubernetes")
        if with_aws:
            from infra.sandbox.pulumi_provider import install_plugin

            install_plugin(self._home, Path(sys.executable))

    def _environment(self, aws_endpoint_url: str | None, region: str, further: Mapping[str, str]) -> dict[str, str]:
        virtual_environment = Path(sys.prefix)
        # A short list of our own, so that neither the user's Pulumi nor their AWS account is ever reached.
        environment = {
            "PATH": os.pathsep.join([str(self._tools), str(virtual_environment / "bin"), "/usr/bin", "/bin"]),
            "HOME": str(self._workdir / "home"),
            "LANG": "C.UTF-8",
            "VIRTUAL_ENV": str(virtual_environment),
            "PYTHONPATH": str(REPOSITORY),
            "PULUMI_HOME": str(self._home),
            "PULUMI_BACKEND_URL": (self._workdir / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "engine-tier",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # brings --event-log
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            **ACCESS_KEY,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if aws_endpoint_url is not None:
            environment["AWS_ENDPOINT_URL"] = aws_endpoint_url
        return {**environment, **further}


def _link_project(project: Path, folder: Path) -> None:
    """A folder like `project` whose configuration files are its own."""
    if not (project / "Pulumi.yaml").is_file():
        raise FileNotFoundError(f"{project} holds no Pulumi.yaml")
    folder.mkdir()
    for path in project.iterdir():
        if path.name.startswith("Pulumi") and path.suffix == ".yaml":
            shutil.copyfile(path, folder / path.name)
        elif path.name != ".git":
            (folder / path.name).symlink_to(path.resolve())

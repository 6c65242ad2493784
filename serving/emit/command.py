"""The bare command: what a shell needs to start vLLM as the plan says."""

import shlex

from serving.emit.server import EmittedFile, OneServer

_KEY_FILE = "/etc/dormouse/vllm.key"


def command_files(server: OneServer) -> list[EmittedFile]:
    """One script. The key comes from a file by way of the environment, so no process list shows it."""
    machine = server.machine
    environment = server.environment(machine.weights_path, machine.cache_path)
    arguments = server.arguments(machine.weights_path, "127.0.0.1", machine.weights_path)
    lines = [
        "#!/bin/sh",
        f"# {server.headline()}",
        "# vLLM's key guards only some of its paths, so it listens on this machine alone; put a proxy that lets /v1/ and",
        "# /health through in front of it (`dormouse emit systemd` writes one).",
        "set -eu",
        f'VLLM_API_KEY="$(cat {_KEY_FILE})"',
        "export VLLM_API_KEY",
        *(f"export {name}={shlex.quote(value)}" for name, value in environment.items()),
        " \\\n  ".join(shlex.quote(word) for word in ["exec", machine.vllm_command, "serve", *arguments])
        .replace("exec \\\n  ", "exec ", 1)
        .replace(" \\\n  serve", " serve", 1),
    ]
    return [EmittedFile("vllm.sh", "\n".join(lines) + "\n", 0o755)]


def command_steps(server: OneServer) -> list[str]:
    """What is to be done beside."""
    return [
        f"Key: (umask 077; openssl rand -hex 24 > {_KEY_FILE})",
        f"Stop it with SIGTERM and leave it {server.plan.drain_s + 60} s: running answers are finished first.",
    ]

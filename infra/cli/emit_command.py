"""`dormouse emit`: one machine without a stack, from the same plan."""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cli.options import add_parser
from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from infra.emit import Emitted
    from serving.emit.server import Machine

_DESCRIPTION = """\
Write what one machine needs to serve a model without EKS: hardened systemd units, a compose file, plain Kubernetes
manifests, the bare command, a preflight script that looks at the machine first, or what Prometheus and Grafana need.

The plan is a stack's own: give a stack file, or MODEL with --instance-type. A model that does not fit is refused with
exit code 1. Without --output the files are printed. No secret is written: the steps say where the key goes."""
_EXAMPLES = """\
  dormouse emit preflight kimi-k2.5 --instance-type 8xH200 > preflight.sh
  dormouse emit systemd kimi-k2.5 --instance-type 8xH200 --weights /data/models --output vllm
  dormouse emit compose --file Pulumi.dev.yaml --output vllm
  dormouse emit k8s qwen3-32b --instance-type 2xH100 --context 32768 | kubectl apply --dry-run=server -f -
"""
_KINDS = ("systemd", "compose", "k8s", "command", "preflight")
_LARGEST_PORT = 65535


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "units, compose file, manifests or command for one machine"
    parser = add_parser(commands, "emit", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("kind", choices=_KINDS, help="what to write")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a known model; with --instance-type")
    parser.add_argument("--file", metavar="FILE", help="a stack file, in place of MODEL")
    parser.add_argument("--instance-type", metavar="TYPE", help="an EC2 type or GPUs as 8xH200")
    asked = parser.add_argument_group("what it is to hold (with MODEL)")
    asked.add_argument("--context", metavar="TOKENS", type=int, help="longest request (default: the model's longest)")
    asked.add_argument("--concurrency", metavar="N", type=int, help="requests at once, at least 64 (default: 64)")
    asked.add_argument("--kv-cache-dtype", choices=("auto", "fp8"), default="auto", help="as vLLM takes it")
    asked.add_argument("--drain", metavar="SECONDS", type=int, default=600, help="to finish answers (default: 600)")
    machine = parser.add_argument_group("the machine")
    machine.add_argument(
        "--weights", metavar="DIR", help="holds the models' folders (default: /srv/models; k8s: /srv/dormouse)"
    )
    machine.add_argument("--cache", metavar="DIR", default="/var/cache/dormouse", help="for compile caches")
    machine.add_argument("--vllm", metavar="PATH", default="/opt/vllm/bin/vllm", help="the installed vllm")
    machine.add_argument("--listen", metavar="ADDRESS", default="127.0.0.1", help="that callers reach")
    machine.add_argument("--port", metavar="PORT", type=int, default=8080, help="that callers reach (default: 8080)")
    machine.add_argument("--memory-gib", metavar="GIB", type=int, help="of the machine, where it is no EC2 type")
    machine.add_argument("--disk-mib-per-s", metavar="N", type=int, default=1000, help="that the disk reads")
    parser.add_argument("--namespace", default="dormouse", help="of the manifests (default: dormouse)")
    parser.add_argument("--output", metavar="DIR", help="write the files below this folder")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write or print the files."""
    from infra.emit import emit, server_from_file, server_from_question

    machine = _machine(arguments)
    if (arguments.file is None) == (arguments.model is None):
        given = "both" if arguments.file else "nothing"
        raise ConfigurationError([Fault("MODEL or --file", given, "one of them")], "the command line")
    if arguments.file:
        server = server_from_file(Path(arguments.file), machine)
    else:
        server = server_from_question(
            arguments.model,
            arguments.instance_type,
            machine,
            context=arguments.context,
            concurrency=arguments.concurrency,
            kv_cache_dtype=arguments.kv_cache_dtype,
            drain_s=arguments.drain,
        )
    made = emit(arguments.kind, server, arguments.namespace)
    if arguments.json:
        print(json.dumps(made.to_mapping(), indent=2))
    elif arguments.output:
        _write(made, Path(arguments.output))
    else:
        _print(made)
    if not arguments.json:
        _say_steps(made)
    return 0


def _machine(arguments: argparse.Namespace) -> "Machine":
    import ipaddress

    from serving.emit.server import Machine
    from serving.units import GIB

    faults: list[Fault] = []
    try:
        ipaddress.IPv4Address(arguments.listen)
    except ValueError:
        faults.append(Fault("--listen", arguments.listen, "an IPv4 address of the machine, or 0.0.0.0 for all"))
    if not 1 <= arguments.port <= _LARGEST_PORT or arguments.port == 8000:
        faults.append(Fault("--port", str(arguments.port), "1 to 65535, but not 8000, which is vLLM's own"))
    if arguments.memory_gib is not None and arguments.memory_gib < 1:
        faults.append(Fault("--memory-gib", str(arguments.memory_gib), "the machine's GiB, 1 or more"))
    if not 1 <= arguments.disk_mib_per_s <= 1_000_000:
        faults.append(Fault("--disk-mib-per-s", str(arguments.disk_mib_per_s), "1 to 1,000,000"))
    if not 30 <= arguments.drain <= 7200:
        faults.append(Fault("--drain", str(arguments.drain), "30 to 7,200 seconds"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    default = "/srv/dormouse" if arguments.kind == "k8s" else "/srv/models"
    memory = None if arguments.memory_gib is None else arguments.memory_gib * GIB
    return Machine(
        weights_path=(arguments.weights or default).rstrip("/"),
        cache_path=arguments.cache.rstrip("/"),
        vllm_command=arguments.vllm,
        listen=arguments.listen,
        port=arguments.port,
        memory_bytes=memory,
        read_mib_per_s=arguments.disk_mib_per_s,
    )


def _write(made: "Emitted", folder: Path) -> None:
    for file in made.files:
        path = folder / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
        path.chmod(file.mode)
        print(path)


def _print(made: "Emitted") -> None:
    """One file as it is, so that it can be piped; several each below a line with its path."""
    main = made.files[: made.printed]
    for file in main:
        if len(main) > 1:
            print(f"# ==> {file.path} (mode {file.mode:o})")
        print(file.text, end="" if len(main) == 1 else "\n")


def _say_steps(made: "Emitted") -> None:
    print(f"\n{made.headline}", file=sys.stderr)
    for number, step in enumerate(made.steps, 1):
        print(f"{number}. {step}", file=sys.stderr)
    if left := made.files[made.printed :]:
        names = ", ".join(shlex.quote(one.path) for one in left)
        print(f"Not printed: {names}; --output DIR writes them too.", file=sys.stderr)

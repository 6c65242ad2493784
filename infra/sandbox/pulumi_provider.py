"""The plugin `aws` for Pulumi's real engine, over the same table of resources as the sandbox.

It takes the place of Pulumi's AWS provider in tests: previews, updates, refreshes, replacements and destroys are the
real engine's, only AWS is simulated. It refuses to run against anything but a simulated AWS on this machine, named by
the environment variable AWS_ENDPOINT_URL.

    python -m infra.sandbox.pulumi_provider       prints its port on the first line and serves until SIGTERM or SIGINT
"""

import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from types import FrameType

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from infra.sandbox.aws_provider import VERSION, AwsProvider

__all__ = ["VERSION", "AwsProvider", "install_plugin", "serve"]

_THREADS = 32


def serve(provider: AwsProvider | None = None) -> tuple[grpc.Server, int]:
    """Serve on 127.0.0.1 at a port of the system's choice; returns the started server and the port."""
    server = grpc.server(
        futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="aws-provider"),
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider or AwsProvider(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def install_plugin(pulumi_home: Path, python: Path | None = None) -> Path:
    """Put the plugin where Pulumi looks for it, under `pulumi_home`, and return its executable.

    - `python`: the interpreter that has Dormouse and its dependencies; by default the running one.
    """
    folder = pulumi_home / "plugins" / f"resource-aws-v{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "pulumi-resource-aws"
    root = Path(__file__).resolve().parents[2]
    # Pulumi starts a plugin in the program's folder, so the package has to be found from there.
    executable.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH="{root}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{python or sys.executable}" '
        '-m infra.sandbox.pulumi_provider "$@"\n'
    )
    executable.chmod(0o755)
    return executable


def main() -> None:
    """Print the port, and serve until SIGTERM or SIGINT."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    # The engine starts plugins in a process group of their own and ends them with SIGINT; a plugin that ignores it is
    # killed five seconds later, at the end of every command.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server, port = serve()
    print(port, flush=True)
    stopped.wait()
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()

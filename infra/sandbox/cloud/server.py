"""The simulated AWS as a server: any boto3 client with its `endpoint_url` talks to it, from any process.

As a process of its own, `python -m infra.sandbox.cloud.server --speed 60` writes one line such as
`{"endpoint_url": "http://127.0.0.1:40123", "admin_url": "http://127.0.0.1:40124", …}` and serves until SIGTERM.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto's server is untyped.
# ruff: noqa: SLF001, since moto offers no other way in

import argparse
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import Any, Self

from moto.core.base_backend import BackendDict, backend_lock
from moto.core.model_instances import reset_model_data
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from infra.clock import Clock, ScaledClock
from infra.sandbox.cloud import CapacityBook, Durations, KubernetesEndpoint, Simulation, install
from infra.sandbox.cloud.admin import AdminServer, CloudAdmin
from serving.errors import DormouseError

_POLL_S = 0.05
_ports_in_this_process: list[int] = []


class CloudServer:
    """A simulated AWS on 127.0.0.1, from entering to leaving; empty at the start.

    - `endpoint_url`: for boto3's `endpoint_url` or AWS_ENDPOINT_URL.
    - `admin_url`: for CloudAdmin.
    - `simulation`: the controls, for whoever runs it in the same process.
    """

    def __init__(
        self,
        clock: Clock,
        durations: Durations | None = None,
        *,
        region: str = "us-east-2",
        port: int = 0,
        admin_port: int = 0,
    ) -> None:
        """Prepare; nothing listens before the `with`.

        - `clock`: the cloud's time.
        - `durations`: None is AWS's usual waiting times.
        - `region`: of clusters in token reviews that name no region.
        - `port`, `admin_port`: 0 lets the system choose.
        """
        self.clock = clock
        self.durations = durations or Durations()
        self.region = region
        self._port, self._admin_port = port, admin_port
        self._stack = ExitStack()
        self.endpoint_url = ""
        self.admin_url = ""
        self.simulation: Simulation | None = None

    @property
    def admin(self) -> CloudAdmin:
        """A client for the controls."""
        return CloudAdmin(self.admin_url)

    def reset(self) -> None:
        """Forget everything, as if just started; the addresses stay."""
        assert self.simulation is not None, "nothing runs before the `with`"
        with self.simulation.lock:
            _forget_everything()
            self.simulation.capacity = CapacityBook()
            self.simulation.kubernetes = KubernetesEndpoint()

    def __enter__(self) -> Self:
        """Start; raises DormouseError where this process runs one already, since moto's state is the process's."""
        if _ports_in_this_process:
            raise DormouseError(
                f"this process runs a simulated cloud on port {_ports_in_this_process[0]} already; leave that one "
                "first, or start the second with `python -m infra.sandbox.cloud.server`"
            )
        with ExitStack() as stack:
            stack.callback(_silence(logging.getLogger("werkzeug")))
            _forget_everything()
            stack.callback(_forget_everything)
            self.simulation = install(self.clock, self.durations)
            application = DomainDispatcherApplication(create_backend_app)
            server: Any = make_server(
                "127.0.0.1", self._port, application, threaded=True, request_handler=MotoRequestHandler
            )
            stack.callback(server.server_close)
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": _POLL_S}, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            _ports_in_this_process.append(server.server_port)
            stack.callback(_ports_in_this_process.clear)
            self.endpoint_url = f"http://127.0.0.1:{server.server_port}"
            admin = stack.enter_context(AdminServer(self.simulation, self.region, self._admin_port))
            self.admin_url = admin.url
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and forget everything."""
        self._stack.close()


def _forget_everything() -> None:
    """Empty moto; its own reset fills every service anew before it drops it, which takes seconds."""
    with backend_lock:
        held: Any = BackendDict
        for backend in held._instances:
            backend.clear()
        held._instances.clear()
    reset_model_data()


def _silence(logger: logging.Logger) -> Any:
    """Have the HTTP server's log show nothing below critical; returns what puts it back."""
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    return lambda: logger.setLevel(before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT; the first line of output is a JSON object with its URLs and clock."""
    parser = argparse.ArgumentParser(prog="python -m infra.sandbox.cloud.server", description=__doc__)
    parser.add_argument("--region", default="us-east-2", help="region of clusters in token reviews that name none")
    parser.add_argument("--port", type=int, default=0, help="port of the AWS endpoint; 0 lets the system choose")
    parser.add_argument("--admin-port", type=int, default=0, help="port of the controls; 0 lets the system choose")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds in one real second")
    parser.add_argument("--origin-unix-s", type=float, help="real time of the clock's origin; default now")
    parser.add_argument("--origin-simulated-unix-s", type=float, help="what the clock shows then; default the same")
    parser.add_argument("--instant", action="store_true", help="no waiting times in the simulated control planes")
    options = parser.parse_args(arguments)
    if options.speed <= 0:
        parser.error("--speed must be above 0")
    origin_unix_s = time.time() if options.origin_unix_s is None else options.origin_unix_s
    simulated = origin_unix_s if options.origin_simulated_unix_s is None else options.origin_simulated_unix_s
    clock = ScaledClock(origin_unix_s, simulated, options.speed)
    ended = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    durations = Durations.instant() if options.instant else Durations()
    server = CloudServer(clock, durations, region=options.region, port=options.port, admin_port=options.admin_port)
    with server:
        print(
            json.dumps(
                {
                    "endpoint_url": server.endpoint_url,
                    "admin_url": server.admin_url,
                    "origin_unix_s": clock.origin_unix_s,
                    "origin_simulated_unix_s": clock.origin_simulated_unix_s,
                    "speed": clock.speed,
                }
            ),
            flush=True,
        )
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

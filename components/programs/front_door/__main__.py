"""Run the front door until it is told to stop."""

import asyncio
import os
import signal
import sys

from components.programs.front_door.answers import error
from components.programs.front_door.door import FrontDoor
from components.programs.front_door.notice import NoticeBoard
from components.programs.front_door.settings import DoorSettings, SettingsError, read_settings
from components.programs.front_door.wire import HEAD_LIMIT_BYTES, Answer, answer_bytes


async def serve(settings: DoorSettings) -> None:
    """Listen on both ports until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    board = NoticeBoard(settings)
    door = FrontDoor(settings, board)

    async def ready(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fine = settings.key_path.is_file()
        answer = Answer(200, b"{}") if fine else error(503, f"no key at {settings.key_path}", "not_ready", "no_key")
        writer.write(answer_bytes(answer, keep_open=False))
        await writer.drain()
        writer.close()

    callers = await asyncio.start_server(door.serve_connection, port=settings.port, limit=HEAD_LIMIT_BYTES)
    probes = await asyncio.start_server(ready, port=settings.ready_port)
    print(f"front door: answering for {settings.model} on port {settings.port}", flush=True)
    await stopped.wait()
    callers.close()
    probes.close()


def main() -> int:
    """Run; 2 where the environment is wrong."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as fault:
        print(f"front door: {fault}", file=sys.stderr)
        return 2
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether the machines of one replica still hold on to each other; runs inside the vLLM container, by its own text.

Every rank of vLLM keeps connections to the first machine's store for as long as its process lives, and none is ever
made anew. So a peer whose connections have all ended has died, even if another process has taken its place since: the
two would wait for each other for ever, and both must start again together.

    leader PORT PEERS   fails unless PEERS machines are connected, and stay the same processes
    worker PORT         fails unless the first machine is, likewise
    wait PORT           ends when the first machine has gone

Standard library only, and no import of this package: the text is handed to the image's own Python.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

_ESTABLISHED = "01"
_HEALTH = "http://127.0.0.1:8000/health"


def peers(port: int, listening: bool) -> dict[str, list[str]]:
    """The ports of established connections over `port` by the other machine's address, in the kernel's hexadecimal."""
    found: dict[str, list[str]] = {}
    for family in ("tcp", "tcp6"):
        table = Path("/proc/net", family)
        if not table.exists():
            continue
        for row in table.read_text(encoding="ascii").splitlines()[1:]:
            local, remote, state = row.split()[1:4]
            ours, theirs = local.split(":"), remote.split(":")
            ports = (ours[1], theirs[1]) if listening else (theirs[1], ours[1])
            # An IPv4 address ends alike in both tables; a machine's connection to itself is no peer.
            if state == _ESTABLISHED and int(ports[0], 16) == port and ours[0] != theirs[0]:
                found.setdefault(theirs[0][-8:], []).append(ports[1])
    return found


def fault(seen: dict[str, list[str]], memory: Path, wanted: int) -> str:
    """Why the replica has fallen apart, or nothing; `memory` keeps the connections that were there at first."""
    if not memory.exists():
        if len(seen) < wanted:
            return f"{len(seen)} of {wanted} machines are connected"
        memory.write_text(json.dumps(seen), encoding="utf-8")
        return ""
    for address, ports in json.loads(memory.read_text(encoding="utf-8")).items():
        if not set(ports) & set(seen.get(address, ())):
            return f"the machine at {address} has gone, or has started again"
    return ""


def main(arguments: list[str]) -> int:
    """Probe once, or wait; 0 is well."""
    role, port = arguments[0], int(arguments[1])
    if role == "wait":
        while peers(port, listening=False):
            time.sleep(1)
        return 0
    # A container that starts again begins anew: its first process is another one.
    started = Path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    memory = Path(os.environ.get("PAIR_MEMORY", "/tmp"), f"peers-{started}.json")
    words = fault(peers(port, role == "leader"), memory, int(arguments[2]) if role == "leader" else 1)
    if words:
        print(words)
        return 1
    if role == "leader":
        with urllib.request.urlopen(_HEALTH, timeout=8) as answer:
            return 0 if answer.status == 200 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

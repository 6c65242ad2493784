"""Filling a machine's folder with proven weights, and refusing to start on others."""

import shlex

from serving.emit.server import EmittedFile, OneServer
from serving.weights.marker import ExpectedWeights, check_command

LIBRARY = "/usr/local/lib/dormouse"
CHECK_FILE = f"{LIBRARY}/weights-check.sh"
FILL_FILE = f"{LIBRARY}/fill-weights.sh"


def check_file(server: OneServer) -> EmittedFile:
    """A script that ends with 1 where the folder's weights are not proven; it reads no weights."""
    command = check_command(ExpectedWeights(server.weights_folder, beside=server.encodings))
    script = command[2].replace("dormouse weights verify --full, then ", "")
    for said in ("dormouse weights hydrate --again", "dormouse weights hydrate"):
        script = script.replace(said, FILL_FILE)
    head = (
        f"#!/bin/sh\n# Lets vLLM start only on weights whose every file was proven.\nset -- {shlex.join(command[4:])}\n"
    )
    return EmittedFile(CHECK_FILE, head + script, 0o755)


def fill_file(server: OneServer) -> EmittedFile:
    """A script that downloads the weights with Dormouse's hydrator and proves every file."""
    return EmittedFile(
        FILL_FILE,
        f"""\
#!/bin/sh
# Downloads {server.model.title} and proves every file by SHA-256. Interrupted, it goes on where it stopped.
# Needs Dormouse in this Python: PYTHON=/opt/dormouse/.venv/bin/python {FILL_FILE}
set -eu
export DORMOUSE_SOURCE={shlex.quote(f"hf://{server.model.repository}")}
export DORMOUSE_REVISION={shlex.quote(server.model.revision)}
export DORMOUSE_TARGET={shlex.quote(server.weights_folder)}
export DORMOUSE_TERMINATION_LOG=/dev/null
mkdir -p "$DORMOUSE_TARGET"
exec "${{PYTHON:-python3}}" -m components.programs.hydrator hydrate
""",
        0o755,
    )

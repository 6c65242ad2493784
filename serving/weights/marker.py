"""Where the proof lies on a volume that its weights are whole, and how a server refuses to start without it.

A weight volume holds one folder for each model. Below it, `.dormouse/` holds what the hydrator knows:

    manifest.json   every file with its bytes and SHA-256, one line a file
    verified.json   written last: the manifest's digest and when every file had been checked against it
    progress.json   how far a running hydrator is

Pods mount the volume's `models` folder: the server read-only at `/models`, the hydrator at `/weights`.
"""

from dataclasses import dataclass

STATE_FOLDER = ".dormouse"
MANIFEST_PATH = f"{STATE_FOLDER}/manifest.json"
MARKER_PATH = f"{STATE_FOLDER}/verified.json"
PROGRESS_PATH = f"{STATE_FOLDER}/progress.json"
LOCK_PATH = f"{STATE_FOLDER}/lock"

VOLUME_SUB_PATH = "models"
"""The folder of the volume that holds the models' folders."""
HYDRATOR_MOUNT_PATH = "/weights"
"""Where the hydrator's pod mounts `VOLUME_SUB_PATH`."""
TERMINATION_LOG_PATH = "/dev/termination-log"
"""Where Kubernetes picks up a container's last words."""
CHECK_CONTAINER = "weights-check"
"""The server's init container that runs `check_command`, and the first word of what it says."""
UNPROVEN_STATUS, UNPROVEN_OUTCOME = 3, "unproven"
"""How a hydrator ends whose check has found the weights wrong: its exit status, and `outcome` in its last words."""
_REFUSAL = f"{CHECK_CONTAINER}: $1. The server does not start on weights that are not proven. Run: $2"


@dataclass(frozen=True)
class ExpectedWeights:
    """The weights that a server was planned for.

    - `folder`: the model's folder as the server's container sees it, such as `/models/kimi-k2.5`.
    - `source`: the canonical source without revision, such as `hf://moonshotai/Kimi-K2.5`; "" accepts any.
    - `revision`: a commit, or the branch or tag that was asked for; "" accepts any.
    - `beside`: files in `folder` that the engine reads and the model's own repository does not hold.
    """

    folder: str
    source: str = ""
    revision: str = ""
    beside: tuple[str, ...] = ()


def hydrator_target(model_name: str) -> str:
    """The folder that the hydrator fills in its own pod: `/weights/<model>`."""
    return f"{HYDRATOR_MOUNT_PATH}/{model_name}"


def check_command(expected: ExpectedWeights) -> list[str]:
    """The command of an init container (needs `sh`, `sed`, `sha256sum`, `stat`) that lets whole weights pass.

    It ends with 1, and says on standard error and in the termination log what to run, where the marker is missing or
    not of this source and revision, the manifest is not the one that was verified, or a file is missing or has another
    size, or one of `beside` is not there. It reads no weights: that is what `dormouse weights verify` does.
    """
    return ["sh", "-c", _SCRIPT, CHECK_CONTAINER, expected.folder, expected.source, expected.revision, *expected.beside]


def refusal_text(what: str, run: str = "dormouse weights hydrate") -> str:
    """What the check says of `what` is wrong, and the command to run."""
    return _REFUSAL.replace("$1", what).replace("$2", run)


# The hydrator writes both documents in one fixed form (see manifest.py), so that sed can read them.
_SCRIPT = (
    rf'''refuse() {{
    text="{_REFUSAL}"'''
    r"""
    echo "$text" >&2
    { echo "$text" > "$log"; } 2>/dev/null
    exit 1
}
folder=$1 source=$2 revision=$3
marker=$folder/.dormouse/verified.json manifest=$folder/.dormouse/manifest.json
log=${DORMOUSE_TERMINATION_LOG:-/dev/termination-log} again="dormouse weights hydrate --again"
field() { sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$marker"; }
[ -d "$folder" ] || refuse "$folder is not on the volume" "dormouse weights hydrate"
[ -f "$marker" ] || refuse "$marker is missing, so the download never finished" "$again"
if [ -n "$source" ] && [ "$(field source)" != "$source" ]; then
    refuse "$folder holds $(field source), not $source" "$again"
fi
if [ -n "$revision" ] && [ "$(field revision)" != "$revision" ] && [ "$(field requested_revision)" != "$revision" ]; then
    refuse "$folder holds revision $(field revision), not $revision" "$again"
fi
[ -f "$manifest" ] || refuse "$manifest is missing" "$again"
digest=$(sha256sum "$manifest")
if [ "${digest%% *}" != "$(field manifest_sha256)" ]; then
    refuse "$manifest is not the one that was verified" "dormouse weights verify --full, then $again"
fi
wrong=$(sed -n 's/^    {"bytes": \([0-9]*\), "path": "\([^"]*\)".*/\1 \2/p' "$manifest" | while read -r bytes path; do
    [ "$(stat -c %s "$folder/$path" 2>/dev/null)" = "$bytes" ] || { echo "$path"; break; }
done)
[ -z "$wrong" ] || refuse "$folder/$wrong is missing or has another size than the manifest says" "$again"
shift 3
for beside in "$@"; do
    [ -s "$folder/$beside" ] || refuse "$folder/$beside is missing, which the model's own repository does not hold" \
        "dormouse weights hydrate with weightsSource s3://… that holds it (docs/will-it-fit.md)"
done
echo "weights-check: $(field files) files, $(field total_bytes) bytes of $(field source) at $(field revision) are there"
"""
)

"""Where the environment stands: one folder for each state of the lock, in the user's cache."""

import hashlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.lock"
# What else decides the result: how the stand-ins are made, and the interpreter.
_INGREDIENTS = (LOCK, HERE / "stand_ins.py")


def environment_path() -> Path:
    """The folder of the environment that this working tree asks for, whether it is built or not.

    `$DORMOUSE_VLLM_CACHE`, else `dormouse/vllm` in the user's cache folder; below it one folder a key.
    """
    named = os.environ.get("DORMOUSE_VLLM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(named) if named else Path(base) / "dormouse" / "vllm"
    return root.expanduser().absolute() / _key()


def is_built(environment: Path) -> bool:
    """Whether the environment is complete: its mark is written last."""
    return (environment / ".complete").is_file()


def _key() -> str:
    digest = hashlib.sha256(f"{sys.version_info[0]}.{sys.version_info[1]}".encode())
    for file in _INGREDIENTS:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

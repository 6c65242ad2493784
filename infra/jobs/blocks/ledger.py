"""What this machine was about to buy: written before the purchase, so that a killed one is looked for, not repeated.

One file for each purchase token. A file without a result says that a purchase may have gone through.
"""

import hashlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from serving.errors import JobError

FOLDER_VARIABLE = "DORMOUSE_LEDGER_DIR"


class Ledger:
    """The purchases of one account and region that began on this machine."""

    def __init__(self, account_id: str, region: str, folder: Path | None = None) -> None:
        """Keep files below `folder`; None is DORMOUSE_LEDGER_DIR, else the user's state folder."""
        given = os.environ.get(FOLDER_VARIABLE)
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        base = folder or (Path(given) if given else state / "dormouse" / "purchases")
        self._folder = base / f"{account_id}-{region}"

    def begun_at(self, token: str) -> datetime | None:
        """When a purchase of that token began whose outcome is unknown, or None."""
        entry = self._read(token)
        return datetime.fromisoformat(entry["begun"]) if entry and not entry.get("ended") else None

    def begin(self, token: str, now: datetime, facts: dict[str, Any]) -> None:
        """Write the intent, on disk when this returns; raises JobError where another process has just begun the same."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(token)
        text = json.dumps({"token": token, "begun": now.isoformat(), **facts}, indent=2) + "\n"
        try:
            # Two processes on one machine cannot both create it.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise JobError(
                f"another `dormouse block` is buying the same at this moment ({path}); nothing was bought by this one: "
                "run it again in a few minutes"
            ) from None
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def clear(self, token: str) -> None:
        """Forget the intent: its outcome is known."""
        self._path(token).unlink(missing_ok=True)

    def _read(self, token: str) -> dict[str, Any] | None:
        try:
            return cast("dict[str, Any]", json.loads(self._path(token).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except ValueError:
            # Killed while writing: the purchase comes after the write, so nothing was asked of EC2 yet.
            self.clear(token)
            return None

    def _path(self, token: str) -> Path:
        return self._folder / f"{hashlib.sha256(token.encode()).hexdigest()[:24]}.json"

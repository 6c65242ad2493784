"""What one run of Pulumi's engine did, read from its event log."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The engine tells a replacement in three steps; each is a way to look at one and the same change.
_STEPS_OF_A_REPLACEMENT = ("create-replacement", "delete-replaced")

# Some of the engine's texts keep their marks of colour even with `--color never`.
_COLOUR_MARK = re.compile(r"<\{%.*?%\}>")


@dataclass(frozen=True)
class Run:
    """One preview, up, refresh or destroy.

    - `command`: the subcommand.
    - `changes`: the engine's own counts by operation, such as {"create": 4, "same": 12}.
    - `urns`: the URNs by operation, such as `urns["update"]`; a replacement stands once, under `replace`. Of a refresh,
      `update` is a resource that was found changed, and `delete` one that was found gone.
    - `drifted`: the URNs that a refresh, or the `--refresh` of an up or destroy, found changed or gone.
    - `changed_keys`: the property paths that differ, by URN, where the provider named them.
    - `diagnostics`: (severity, message) of every warning and error, and of what the program logged.
    - `text`: standard output and standard error.
    - `wall_s`: real seconds.
    """

    command: str
    changes: dict[str, int]
    urns: dict[str, list[str]]
    drifted: list[str]
    changed_keys: dict[str, list[str]]
    diagnostics: list[tuple[str, str]]
    text: str
    wall_s: float
    exit_code: int
    events: list[dict[str, Any]] = field(repr=False)

    @property
    def creates(self) -> int:
        """Resources created."""
        return self.changes.get("create", 0)

    @property
    def updates(self) -> int:
        """Resources changed in place."""
        return self.changes.get("update", 0)

    @property
    def replaces(self) -> int:
        """Resources deleted and made anew."""
        return self.changes.get("replace", 0)

    @property
    def deletes(self) -> int:
        """Resources deleted, or only forgotten where they are retained."""
        return self.changes.get("delete", 0)

    @property
    def same(self) -> int:
        """Resources left as they were."""
        return self.changes.get("same", 0)

    @property
    def changed(self) -> int:
        """Resources that any operation but `same` and `read` touched."""
        return sum(count for operation, count in self.changes.items() if operation not in ("same", "read"))

    def names(self, operation: str) -> list[str]:
        """`type::name` of the resources under `operation`, sorted."""
        return sorted("::".join(urn.split("::")[2:]).split("$")[-1] for urn in self.urns.get(operation, []))

    def messages(self, severity: str) -> list[str]:
        """The diagnostics of one severity: `error`, `warning`, `info`."""
        return [message for level, message in self.diagnostics if level == severity]


def read_run(command: str, event_log: Path, text: str, wall_s: float, exit_code: int) -> Run:
    """Gather a run's facts from `event_log`, which may be absent where the engine never started."""
    events = _events(event_log)
    steps = _Steps(command)
    changes: dict[str, int] = {}
    diagnostics: list[tuple[str, str]] = []
    for event in events:
        if summary := event.get("summaryEvent"):
            changes = dict(summary.get("resourceChanges") or {})
        elif begun := event.get("resourcePreEvent"):
            steps.begin(begun["metadata"])
        elif ended := event.get("resOutputsEvent"):
            steps.end(ended["metadata"])
        elif said := event.get("diagnosticEvent"):
            diagnostics.append((str(said["severity"]), _COLOUR_MARK.sub("", str(said["message"])).strip()))
    # A provider's progress lines come as blank messages when they are taken off the screen again.
    diagnostics = [(severity, message) for severity, message in diagnostics if message and severity != "debug"]
    return Run(
        command,
        changes,
        dict(steps.urns),
        steps.drifted,
        steps.changed_keys,
        diagnostics,
        _COLOUR_MARK.sub("", text),
        wall_s,
        exit_code,
        events,
    )


class _Steps:
    """What happened to each resource, from the beginnings and ends of the engine's steps."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._being_read: set[str] = set()
        self.urns: dict[str, list[str]] = defaultdict(list)
        self.drifted: list[str] = []
        self.changed_keys: dict[str, list[str]] = {}

    def begin(self, metadata: dict[str, Any]) -> None:
        """A step begins: it counts, except a reading, which tells what it found when it ends."""
        if metadata["op"] == "refresh":
            self._being_read.add(metadata["urn"])
        else:
            self._count(metadata)

    def end(self, metadata: dict[str, Any]) -> None:
        """A step ends."""
        urn = str(metadata["urn"])
        if urn not in self._being_read:
            return
        self._being_read.remove(urn)
        # A preview only says that it read; the steps after it show what it found.
        if metadata["op"] not in ("same", "refresh"):
            self.drifted.append(urn)
        if self._command == "refresh":
            self._count(metadata)

    def _count(self, metadata: dict[str, Any]) -> None:
        operation, urn = str(metadata["op"]), str(metadata["urn"])
        if operation not in _STEPS_OF_A_REPLACEMENT and urn not in self.urns[operation]:
            self.urns[operation].append(urn)
        if keys := metadata.get("diffs") or list(metadata.get("detailedDiff") or {}):
            self.changed_keys[urn] = sorted(str(key) for key in keys)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

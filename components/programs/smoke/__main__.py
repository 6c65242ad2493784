"""Run the checks in a pod: the address and the key come from the environment, the results go to the log."""

import json
import os
import sys
from pathlib import Path

from components.programs.smoke.checks import run_checks
from components.programs.smoke.client import Client
from components.programs.smoke.report import line, to_mapping
from components.programs.smoke.target import Result, Target


def main() -> int:
    """1 where a check fails, 2 where the environment is wrong."""
    environment = os.environ
    try:
        key = Path(environment["SMOKE_KEY_FILE"]).read_text(encoding="utf-8").strip()
        client = Client(environment["SMOKE_URL"], key)
    except (KeyError, OSError, ValueError) as error:
        print(f"smoke: {type(error).__name__}: {error}; set SMOKE_URL and SMOKE_KEY_FILE", file=sys.stderr)
        return 2
    target = Target(
        client,
        environment.get("SMOKE_MODEL") or None,
        reasoning=environment.get("SMOKE_REASONING", "true") == "true",
        tools=environment.get("SMOKE_TOOLS", "true") == "true",
        long_tokens=int(environment["SMOKE_LONG_TOKENS"]) if environment.get("SMOKE_LONG_TOKENS") else None,
    )
    results: list[Result] = []
    for result in run_checks(target, frozenset(environment.get("SMOKE_SKIP", "").split())):
        results.append(result)
        print(line(result), flush=True)
    report = to_mapping(environment["SMOKE_URL"], results)
    if path := environment.get("SMOKE_REPORT"):
        Path(path).write_text(json.dumps(report)[:4000], encoding="utf-8")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())

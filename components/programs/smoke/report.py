"""Results for machines: JSON, JUnit, and one line each."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

from components.programs.smoke.target import Result

_SIGNS = {"ok": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


def line(result: Result) -> str:
    """One result as a line of text."""
    return f"{_SIGNS[result.outcome]} {result.name:<15} {result.took_s:7.2f} s  {result.detail}"


def to_mapping(url: str, results: Sequence[Result]) -> dict[str, Any]:
    """All results as plain JSON, in camelCase."""
    return {
        "url": url,
        "passed": not any(one.outcome == "failed" for one in results),
        "checks": [
            {"name": one.name, "outcome": one.outcome, "detail": one.detail, "tookS": round(one.took_s, 3)}
            for one in results
        ],
    }


def junit(results: Sequence[Result]) -> str:
    """All results as a JUnit file, which every CI shows."""
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in ("failed", "skipped")}
    suite = ET.Element(
        "testsuite",
        name="dormouse smoke",
        tests=str(len(results)),
        failures=str(counts["failed"]),
        skipped=str(counts["skipped"]),
        time=f"{sum(one.took_s for one in results):.3f}",
    )
    for one in results:
        case = ET.SubElement(suite, "testcase", classname="smoke", name=one.name, time=f"{one.took_s:.3f}")
        if one.outcome == "failed":
            ET.SubElement(case, "failure", message=one.detail)
        elif one.outcome == "skipped":
            ET.SubElement(case, "skipped", message=one.detail)
        else:
            ET.SubElement(case, "system-out").text = one.detail
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

"""How the report of a job looks at its end."""

import json

from infra.jobs.progress import Report


def print_report(report: Report, *, as_json: bool) -> None:
    """Print to stdout: the sentence, then refusals and notes, or everything as JSON."""
    if as_json:
        print(json.dumps(report.to_mapping(), indent=2))
        return
    print(report.sentence)
    if report.dry_run:
        for number, step in enumerate(report.steps, 1):
            print(f"  {number}. {step.text}")
    for refusal in report.refusals:
        print(f"  refused: {refusal}")
    for note in report.notes:
        print(f"  note: {note}")

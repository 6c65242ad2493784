"""Findings on the terminal: the cause, where it shows, what helps."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from serving.diagnosis.finding import Finding

_SIGNS = {"error": "[red]✗[/red]", "warning": "[yellow]![/yellow]"}
_CONFIDENCE = {"certain": "", "likely": " (likely)", "possible": " (possible)"}


def print_findings(head: str, findings: Sequence[Finding], unread: Sequence[str] = ()) -> None:
    """Print every finding with its evidence and remedy, then what could not be read."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(escape(head))
    if not findings:
        console.print("[green]✓[/green] nothing found: this looks healthy")
    for one in findings:
        console.print()
        console.print(f"{_SIGNS[one.severity]} [bold]{escape(one.title)}[/bold]{_CONFIDENCE[one.confidence]}")
        console.print(f"  {escape(one.cause)}")
        more = f" ({one.repeats} times)" if one.repeats > 1 else ""
        console.print(f"  [dim]{escape(one.evidence.place)}{more}: {escape(one.evidence.text)}[/dim]")
        console.print(f"  → {escape(one.remedy)}")
    if unread:
        console.print()
        for part in unread:
            console.print(f"[yellow]?[/yellow] not read: {escape(part)}")

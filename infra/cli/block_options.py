"""What is typed to `dormouse block`: sums of money, days, and the yes to a price."""

import argparse
import sys
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation


def agreed(given: Decimal | None, fee: Decimal) -> Decimal:
    """The sum from the command line, else typed at the terminal; raises JobError where nobody can type."""
    from serving.errors import JobError

    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise JobError(f"nobody is there to agree to the price; nothing was bought. --yes-pay {fee:,.2f} agrees to it")
    print("Type the sum to buy, anything else to leave it: ", end="", file=sys.stderr, flush=True)
    try:
        return sum_of_money(sys.stdin.readline())
    except argparse.ArgumentTypeError:
        raise JobError("no sum was typed; nothing was bought") from None


def sum_of_money(text: str) -> Decimal:
    """An argparse type: dollars and cents, thousands with or without commas."""
    try:
        value = Decimal(text.strip().removeprefix("$").replace(",", ""))
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise argparse.ArgumentTypeError(f"{text.strip()!r}; accepted: a sum such as 23,884.80")
    return value


def date(text: str) -> datetime:
    """An argparse type: a day or a time, in UTC where it has no offset."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: a date such as 2027-01-31") from None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

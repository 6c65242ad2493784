"""`dormouse block find|buy|list|extend`: Capacity Blocks, bought only here and only for a sum that was typed."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.block_options import agreed, date, sum_of_money
from infra.cli.options import EXIT_CODES, add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from infra.jobs.blocks.offers import Offer, Wish
    from infra.preflight.question import Question

_DESCRIPTION = """\
Capacity Blocks: machines of one zone, paid in advance for whole days, and the dependable way to an H200 machine.

Nothing is ever bought without the sum: it is asked for at a terminal, or given with --yes-pay, and must be right to the
cent. The same command, run again, buys once; it finds what an interrupted run has bought. A block cannot be given
back."""
_EXAMPLES = """\
  dormouse block find --days 14
  dormouse block find --stack prod --days 7 --within 2027-01-31 --zones use2-az1,use2-az2
  dormouse block buy use2-az1/2026-12-03T11:30Z/336h/1x --days 14
  dormouse block buy --days 1 --yes-pay 998.64
  dormouse block list
  dormouse block extend cr-0123456789abcdef0 --days 7
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand and what is below it."""
    summary = "find, buy, list and extend Capacity Blocks"
    parser = add_parser(commands, "block", summary, _DESCRIPTION, _EXAMPLES)
    inner = parser.add_subparsers(title="block commands", metavar="COMMAND", dest="block_command", required=True)
    for name, words, run in (
        ("find", "what is on offer, cheapest first", _find),
        ("buy", "buy one offering, once", _buy),
        ("list", "the account's Capacity Blocks in the region", _list),
        ("extend", "make a bought block longer, once", _extend),
    ):
        one = inner.add_parser(name, help=words, description=words, epilog=EXIT_CODES)
        one.set_defaults(run=run)
        if name == "extend":
            one.add_argument("reservation", help="the block's id, cr-…")
            one.add_argument("--again", action="store_true", help="buy the same days again within 24 hours")
        if name == "buy":
            one.add_argument(
                "offering", nargs="?", help="an offering's key or id, as `find` with the same --days shows"
            )
            one.add_argument(
                "--purchase",
                metavar="NAME",
                help="a name of your own for this purchase: the same name never buys twice (default: what is asked for)",
            )
        if name != "list":
            one.add_argument("--days", type=int, default=1 if name == "extend" else 14, help="whole days")
        if name in ("find", "buy"):
            one.add_argument("--count", type=int, default=1, help="machines in the block (default: 1)")
            one.add_argument("--from", dest="earliest", metavar="DATE", type=date, help="not before this day (UTC)")
            one.add_argument("--within", metavar="DATE", type=date, help="ended by this day (UTC)")
            one.add_argument("--zones", help="zones by id or name, with commas (default: every zone that sells it)")
        if name in ("buy", "extend"):
            one.add_argument(
                "--yes-pay", metavar="SUM", type=sum_of_money, help="agree to this sum in US dollars, to the cent"
            )
        one.add_argument("--file", help="the stack file (default: Pulumi.dev.yaml)")
        one.add_argument("--stack", metavar="NAME", help="the file Pulumi.NAME.yaml in this folder")
        one.add_argument("--sandbox", action="store_true", help="the simulated cloud that `dormouse sandbox up` runs")
        one.add_argument("--json", action="store_true", help="print JSON with stable keys")


def _find(arguments: argparse.Namespace) -> int:
    from infra.jobs.blocks.offers import find_offers, on_demand_price

    question = _question(arguments)
    wish = _wish(arguments, question)
    offers = find_offers(question.account.client("ec2"), wish)
    price = on_demand_price(wish.instance_type, wish.region)
    if arguments.json:
        print(json.dumps({"offers": [one.to_mapping(price) for one in offers]}, indent=2))
        return 0 if offers else 1
    if not offers:
        print(
            f"no Capacity Block of {wish.count} × {wish.instance_type} for {wish.days} days is on offer in "
            f"{', '.join(wish.zones) or wish.region}. Shorter blocks, other dates, other zones or another region may be."
        )
        return 1
    print(f"{wish.count} × {wish.instance_type} for {wish.days} days, paid in advance:")
    print(f"  {'offering':<44}{'starts (UTC)':<18}{'total':>14}{'$/hour':>9}  break-even")
    for one in offers:
        even = one.break_even_hours_a_day(price)
        text = "unknown" if even is None else f"{even:.1f} h a day" if even <= 24 else "never"
        total = f"${one.fee_usd:,.2f}"
        print(f"  {one.key:<44}{one.start:%Y-%m-%d %H:%M}  {total:>14}{one.usd_per_hour:>9.2f}  {text}")
    if price is None:
        print(f"On demand: nobody publishes a price of {wish.instance_type} in {wish.region}.")
    else:
        print(f"On demand: ${price.usd:.2f} an hour ({price.origin()}); used more than that, the block is cheaper.")
    print(f"`dormouse block buy KEY --days {wish.days} --count {wish.count}` buys one; ids change with every look.")
    return 0


def _buy(arguments: argparse.Namespace) -> int:
    from infra.jobs.blocks.ledger import Ledger
    from infra.jobs.blocks.offers import find_offers
    from infra.jobs.blocks.purchase import Purchase

    question = _question(arguments)
    wish = _wish(arguments, question)
    wish.check()
    name = question.environment.name
    purchase = Purchase(
        ec2=question.account.client("ec2", repeats=False),
        clock=question.clock,
        ledger=Ledger(_account_id(question), wish.region),
        token=f"{name}: {arguments.purchase or arguments.offering or _words(wish)}",
        environment=name,
        say=_say,
    )
    before = purchase.earlier()
    if before is None:
        offer = _chosen(find_offers(question.account.client("ec2"), wish), arguments.offering)
        what = f"{offer.count} × {offer.instance_type} in {offer.zone_id or offer.zone}"
        _say(
            f"{what} from {offer.start:%Y-%m-%d %H:%M} to {offer.end:%Y-%m-%d %H:%M} UTC: ${offer.fee_usd:,.2f}, paid now,"
        )
        _say(f"never given back (${offer.usd_per_hour:.2f} an hour and machine).")
        bought = purchase.buy(offer, agreed(arguments.yes_pay, offer.fee_usd))
        reservation, changed, sentence = bought.reservation, bought.changed, bought.sentence
    else:
        reservation, changed = before, False
        sentence = "bought already by the same command; nothing was paid now. --purchase NAME buys another one"
    zone = reservation.zone_id or reservation.zone
    line = f"    - {{purchase: capacity-block, zone: {zone}, reservationId: {reservation.reservation_id}}}"
    if arguments.json:
        print(
            json.dumps(
                {
                    "reservationId": reservation.reservation_id,
                    "changed": changed,
                    "state": reservation.state,
                    "zoneId": reservation.zone_id,
                    "start": None if reservation.start is None else reservation.start.isoformat(),
                    "end": None if reservation.end is None else reservation.end.isoformat(),
                    "sentence": sentence,
                },
                indent=2,
            )
        )
        return 0
    print(f"{reservation.reservation_id}: {sentence}.")
    print(f"Put this first into the stack file, then `pulumi up`:\n\n  dormouse:capacity:\n{line}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from infra.jobs.blocks.purchase import TOKEN_TAG, describe_blocks
    from infra.preflight.reservations import Reservation, judge_reservation

    question = _question(arguments)
    rows: list[dict[str, object]] = []
    for described in describe_blocks(question.account.client("ec2")):
        one = Reservation.from_ec2(described)
        verdict = judge_reservation(
            one,
            reservation_id=one.reservation_id,
            instance_type=one.instance_type,
            zone=one.zone_id or one.zone,
            now=question.clock.now(),
        )
        tags = {str(tag["Key"]): str(tag["Value"]) for tag in described.get("Tags", [])}
        rows.append(
            {
                "reservationId": one.reservation_id,
                "instanceType": one.instance_type,
                "zoneId": one.zone_id,
                "state": one.state,
                "start": None if one.start is None else one.start.isoformat(),
                "end": None if one.end is None else one.end.isoformat(),
                "total": one.total,
                "free": one.free,
                "verdict": verdict.kind.value,
                "words": verdict.words,
                "purchase": tags.get(TOKEN_TAG),
            }
        )
    if arguments.json:
        print(json.dumps({"blocks": rows}, indent=2))
    elif not rows:
        print(f"no Capacity Blocks in {question.environment.region}; `dormouse block find` shows what is on offer")
    else:
        print("\n".join(str(row["words"]) for row in rows))
    return 0


def _extend(arguments: argparse.Namespace) -> int:
    from infra.jobs.blocks.extension import block_of, extend, extended_already, extension_offers
    from infra.jobs.blocks.ledger import Ledger
    from serving.errors import JobError

    question = _question(arguments)
    ec2 = question.account.client("ec2")
    ledger = Ledger(_account_id(question), question.environment.region)
    block = block_of(ec2, arguments.reservation)
    ended = extended_already(ec2, question.clock, ledger, arguments.reservation, arguments.days, again=arguments.again)
    if ended is None:
        offers = extension_offers(ec2, arguments.reservation, arguments.days)
        if not offers:
            raise JobError(
                f"AWS offers no extension of {arguments.reservation} ({block.state}) by {arguments.days} days; other "
                "days may be offered, or `dormouse block find` shows a block that follows"
            )
        offer = offers[0]
        _say(
            f"{offer.reservation_id} from {offer.start:%Y-%m-%d %H:%M} to {offer.end:%Y-%m-%d %H:%M} UTC: "
            f"${offer.fee_usd:,.2f}, paid now, never given back (${offer.usd_per_hour:.2f} an hour and machine)."
        )
        sum_usd = agreed(arguments.yes_pay, offer.fee_usd)
        once_ec2 = question.account.client("ec2", repeats=False)
        ended = extend(once_ec2, question.clock, ledger, offer, arguments.days, sum_usd, _say)
    if arguments.json:
        print(
            json.dumps(
                {
                    "reservationId": ended.reservation_id,
                    "end": ended.end.isoformat(),
                    "changed": ended.changed,
                    "sentence": ended.sentence,
                },
                indent=2,
            )
        )
    else:
        print(f"{ended.reservation_id}: {ended.sentence}.")
    return 0


def _question(arguments: argparse.Namespace) -> "Question":
    import os

    from infra.preflight.question import ask

    question = ask(arguments.file, arguments.stack, sandbox=arguments.sandbox, variables=os.environ)
    if question.simulated:
        _say("simulated cloud: nothing here runs on AWS or costs anything")
    return question


def _account_id(question: "Question") -> str:
    """The account of the credentials; raises JobError where the stack file names another one."""
    from serving.errors import JobError

    identity = question.account.client("sts").get_caller_identity()
    wanted = question.environment.account_id
    if wanted is not None and identity["Account"] != wanted:
        raise JobError(
            f"these credentials ({identity['Arn']}) belong to account {identity['Account']}, and dormouse:accountId is "
            f"{wanted}; nothing was bought: choose the right profile with AWS_PROFILE"
        )
    return str(identity["Account"])


def _wish(arguments: argparse.Namespace, question: "Question") -> "Wish":
    from infra.jobs.blocks.offers import Wish

    return Wish(
        region=question.environment.region,
        instance_type=question.environment.shape.name,
        days=arguments.days,
        count=arguments.count,
        earliest=arguments.earliest,
        latest_end=arguments.within,
        zones=tuple(zone.strip() for zone in (arguments.zones or "").split(",") if zone.strip()),
    )


def _words(wish: "Wish") -> str:
    """The wish as a purchase's token: the same words are the same purchase."""
    parts = [f"{wish.count} {wish.instance_type} {wish.days} days"]
    parts += [f"from {wish.earliest:%Y-%m-%d}"] if wish.earliest else []
    parts += [f"within {wish.latest_end:%Y-%m-%d}"] if wish.latest_end else []
    parts += [f"in {' '.join(sorted(wish.zones))}"] if wish.zones else []
    return " ".join(parts)


def _chosen(offers: "list[Offer]", named: str | None) -> "Offer":
    from serving.errors import JobError

    if not offers:
        raise JobError(
            "nothing like that is on offer; nothing was bought. `dormouse block find` with other days or dates"
        )
    if named is None:
        return offers[0]
    for one in offers:
        if named in (one.key, one.offering_id):
            return one
    raise JobError(
        f"{named} is not on offer (any more) for these days and machines; nothing was bought. On offer are: "
        f"{', '.join(one.key for one in offers)}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)

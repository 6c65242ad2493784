"""Capacity Blocks are bought once, whatever happens on the way: lost answers, kills at every step, changed offering ids."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cli.main import main
from infra.jobs.blocks.extension import extend, extended_already, extension_offers
from infra.jobs.blocks.ledger import Ledger
from infra.jobs.blocks.offers import Wish, find_offers
from infra.jobs.blocks.purchase import Bought, NotAgreedError, Purchase
from infra.preflight.question import Account
from infra.sandbox.cloud import CapacityRule
from infra.sandbox.cloud.server import CloudServer
from serving.errors import ConfigurationError, JobError
from tests.sandbox.cloud.world import HandClock

REGION, TYPE = "us-east-2", "p5en.48xlarge"
DAY_USD = Decimal("998.64")  # 24 h × 41.61, the published price


class Killed(BaseException):
    """The process ends here."""


class Shop:
    """A simulated EC2 and a customer whose process may be killed at any call."""

    def __init__(self, server: CloudServer, clock: HandClock, account: Account, folder: Path) -> None:
        self.server, self.clock, self.account, self.folder = server, clock, account, folder
        self.ec2, self.once = account.client("ec2"), account.client("ec2", repeats=False)
        assert server.simulation is not None
        self.book = server.simulation.capacity

    def purchase(self, ec2: Any = None, token: str = "dev: one day", say: Any = lambda _text: None) -> Purchase:
        ledger = Ledger("123456789012", REGION, self.folder)
        return Purchase(ec2 or self.once, self.clock, ledger, token, "dev", say)

    def buy(self, **changed: Any) -> Bought:
        return self.purchase(**changed).buy(find_offers(self.ec2, Wish(REGION, TYPE, 1))[0], DAY_USD)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[CloudServer, HandClock, Account]]:
    clock = HandClock()
    with CloudServer(clock) as server:
        yield server, clock, Account(REGION, server.endpoint_url, simulated=True)


@pytest.fixture
def shop(running: tuple[CloudServer, HandClock, Account], tmp_path: Path) -> Shop:
    server, clock, account = running
    server.reset()
    return Shop(server, clock, account, tmp_path / "ledger")


class KilledAt:
    """An EC2 client whose user is killed right before or right after its `number`th call."""

    def __init__(self, ec2: Any, number: int, *, after: bool) -> None:
        self._ec2, self.left, self._after = ec2, number, after

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self._after:
                raise Killed
            try:
                return getattr(self._ec2, name)(**asked)
            finally:
                if self.left == 0 and self._after:
                    raise Killed

        return call


def test_offers_are_sorted_by_price_with_totals_and_break_even(shop: Shop) -> None:
    offers = find_offers(shop.ec2, Wish(REGION, TYPE, 14, count=2))

    assert {one.zone_id for one in offers} == {"use2-az1", "use2-az2", "use2-az3"}
    assert offers[0].fee_usd == Decimal("27961.92")
    assert offers[0].usd_per_hour == pytest.approx(41.61)
    assert [one.start for one in offers] == sorted(one.start for one in offers)


def test_a_zone_without_blocks_offers_none(shop: Shop) -> None:
    shop.book.add(CapacityRule(purchase="capacity-block", zone="us-east-2a"))

    assert {one.zone_id for one in find_offers(shop.ec2, Wish(REGION, TYPE, 1))} == {"use2-az2", "use2-az3"}
    assert find_offers(shop.ec2, Wish(REGION, TYPE, 1, zones=("use2-az1",))) == []


def test_days_that_are_not_sold_are_a_fault() -> None:
    with pytest.raises(ConfigurationError, match="--days: got 15; accepted: 1 to 14 days"):
        Wish(REGION, TYPE, 15, count=1).check()


def test_a_wrong_sum_buys_nothing(shop: Shop) -> None:
    offer = find_offers(shop.ec2, Wish(REGION, TYPE, 1))[0]

    with pytest.raises(NotAgreedError, match=r"costs \$998\.64, and \$998\.63 was agreed to"):
        shop.purchase().buy(offer, DAY_USD - Decimal("0.01"))
    assert shop.book.market.purchases == 0


def test_an_answer_that_is_lost_after_the_purchase_is_found_and_taken(shop: Shop) -> None:
    shop.book.market.faults.append("lost-answer")

    bought = shop.buy()

    assert bought.changed
    assert "answer was lost" in bought.sentence
    assert shop.buy().reservation == bought.reservation
    assert shop.book.market.purchases == 1


def test_a_refused_purchase_says_so_and_may_be_tried_again(shop: Shop) -> None:
    shop.book.market.faults.append("refused")

    with pytest.raises(JobError, match="no longer available.*nothing was bought"):
        shop.buy()
    assert shop.buy().changed
    assert shop.book.market.purchases == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_at_each_call_and_run_again_buys_once(shop: Shop, number: int, after: bool) -> None:
    """Calls: look, dry run, purchase; every run has new offering ids."""
    with pytest.raises(Killed):
        shop.buy(ec2=KilledAt(shop.once, number, after=after))

    bought = shop.buy()

    assert shop.book.market.purchases == 1
    assert list(shop.book.blocks) == [bought.reservation.reservation_id]


def test_killed_at_each_word_and_run_again_buys_once(shop: Shop) -> None:
    for number in (1, 2):
        said: list[str] = []

        def say(text: str, said: list[str] = said, number: int = number) -> None:
            said.append(text)
            if len(said) == number:
                raise Killed

        with pytest.raises(Killed):
            shop.buy(say=say)
    shop.buy()

    assert shop.book.market.purchases == 1


def test_another_name_is_another_purchase(shop: Shop) -> None:
    first, second = shop.buy(), shop.buy(token="dev: second")

    assert first.reservation.reservation_id != second.reservation.reservation_id


@pytest.mark.parametrize("fault", [None, "lost-answer"])
def test_an_extension_is_bought_once(shop: Shop, fault: Any) -> None:
    reservation = shop.buy().reservation
    ledger = Ledger("123456789012", REGION, shop.folder)
    shop.book.market.faults += [fault] if fault else []
    offer = extension_offers(shop.ec2, reservation.reservation_id, 1)[0]

    made = extend(shop.once, shop.clock, ledger, offer, 1, DAY_USD, lambda _text: None)
    again = extended_already(shop.ec2, shop.clock, ledger, reservation.reservation_id, 1)

    assert again is not None
    assert not again.changed
    assert again.end == made.end == shop.book.blocks[reservation.reservation_id].end
    assert shop.book.market.purchases == 2
    assert extended_already(shop.ec2, shop.clock, ledger, reservation.reservation_id, 1, again=True) is None


def test_the_command_buys_for_the_typed_sum_alone_and_prints_the_line_to_paste(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DORMOUSE_LEDGER_DIR", str(tmp_path))
    monkeypatch.setattr("infra.preflight.question.SystemClock", lambda: shop.clock)
    monkeypatch.setattr("infra.preflight.question.Account", lambda *_args, **_more: shop.account)

    assert main(["block", "buy", "--days", "1"]) == 1
    assert "--yes-pay 998.64 agrees to it" in capsys.readouterr().err
    assert main(["block", "buy", "--days", "1", "--yes-pay", "998.64"]) == 0
    (reservation_id,) = shop.book.blocks
    line = f"{{purchase: capacity-block, zone: use2-az1, reservationId: {reservation_id}}}"
    assert line in capsys.readouterr().out
    assert main(["block", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocks"][0]["verdict"] == "not-started"
    assert main(["block", "buy", "--days", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is False

"""Buying a Capacity Block at most once, and making one longer at most once.

EC2's purchase takes no client token, so: what is bought carries a tag with the purchase's token; before buying, and
after an answer that did not come, reservations with that tag (or the same type, zone, dates and count, made just now)
are looked for and adopted. The call itself is never repeated by the AWS client.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.blocks.ledger import Ledger
from infra.jobs.blocks.offers import Offer
from infra.preflight.reservations import Reservation
from serving.errors import JobError

TOKEN_TAG = "dormouse.dev/purchase"  # noqa: S105, a tag's key
ENVIRONMENT_TAG = "dormouse.dev/environment"
CONSISTENCY_S = 300.0
"""How long EC2 is given to show a reservation whose purchase got no answer, before it counts as not made."""
_LOOK_EVERY_S = 15.0
_GONE = ("expired", "cancelled", "failed", "payment-failed")
_SURE_REFUSALS = 500

Say = Callable[[str], None]


class NotAgreedError(JobError):
    """The sum that was agreed to is not the sum of the offering."""


@dataclass(frozen=True)
class Bought:
    """What a purchase ended in: `changed` is False where an earlier purchase was found and taken instead."""

    reservation: Reservation
    changed: bool
    sentence: str


@dataclass(frozen=True)
class Purchase:
    """One purchase: its token, whose it is, and the clients. `ec2` must not repeat calls on its own."""

    ec2: Any
    clock: Clock
    ledger: Ledger
    token: str
    environment: str
    say: Say

    def earlier(self) -> Reservation | None:
        """The reservation that this token has bought already; waits where an earlier run's outcome is not known yet.

        Raises botocore's errors.
        """
        begun = self.ledger.begun_at(self.token)
        until = self.clock.now() if begun is None else begun + timedelta(seconds=CONSISTENCY_S)
        found = self._wait_for(until, lambda _one, tags: tags.get(TOKEN_TAG) == self.token)
        if begun is not None:
            self.ledger.clear(self.token)
        return found

    def buy(self, offer: Offer, agreed_usd: Decimal) -> Bought:
        """Buy the offering, once; `agreed_usd` must be its sum to the cent.

        Raises NotAgreedError, JobError where EC2 refuses or the outcome stays unknown, and botocore's errors of the
        questions before.
        """
        before = self.earlier()
        if before is not None:
            return Bought(
                before, False, f"bought already: {before.reservation_id} carries this purchase; nothing was paid now"
            )
        if agreed_usd != offer.fee_usd:
            raise NotAgreedError(
                f"the offering {offer.key} costs {usd(offer.fee_usd)}, and {usd(agreed_usd)} was agreed to; nothing was "
                f"bought: agree to {offer.fee_usd:,.2f} or look again with `dormouse block find`"
            )
        tags = {TOKEN_TAG: self.token, ENVIRONMENT_TAG: self.environment, "dormouse.dev/managed-by": "dormouse"}
        asked: dict[str, Any] = {
            "CapacityBlockOfferingId": offer.offering_id,
            "InstancePlatform": "Linux/UNIX",
            "TagSpecifications": [
                {"ResourceType": "capacity-reservation", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
            ],
        }
        self.say("asking EC2 whether the purchase would be allowed (dry run)")
        dry_run(self.ec2.purchase_capacity_block, asked)
        began = self.clock.now()
        self.ledger.begin(self.token, began, {"offer": offer.key, "usd": str(offer.fee_usd)})
        self.say(f"buying {offer.key} for {usd(offer.fee_usd)}")
        answer = once(self.ec2.purchase_capacity_block, asked, lambda: self.ledger.clear(self.token))
        if answer is not None:
            self.ledger.clear(self.token)
            return Bought(Reservation.from_ec2(answer["CapacityReservation"]), True, f"bought for {usd(offer.fee_usd)}")
        self.say("EC2's answer was lost; looking whether the purchase went through")
        found = self._wait_for(
            began + timedelta(seconds=CONSISTENCY_S), lambda one, tags: _is(one, tags, offer, self.token, began)
        )
        if found is None:
            raise JobError(
                f"EC2 gave no answer to the purchase, and no reservation of it appeared within {CONSISTENCY_S:g} s; "
                "most likely nothing was bought. `dormouse block list` shows what is there; running the same command "
                "again looks once more before it buys"
            )
        self.ledger.clear(self.token)
        return Bought(found, True, f"bought for {usd(offer.fee_usd)}; EC2's answer was lost, the reservation was found")

    def _wait_for(
        self, until: datetime, wanted: Callable[[dict[str, Any], dict[str, str]], bool]
    ) -> Reservation | None:
        while True:
            for one in describe_blocks(self.ec2):
                tags = {str(tag["Key"]): str(tag["Value"]) for tag in one.get("Tags", [])}
                if one.get("State") not in _GONE and wanted(one, tags):
                    return Reservation.from_ec2(one)
            if self.clock.now() >= until:
                return None
            self.clock.sleep(_LOOK_EVERY_S)


def describe_blocks(ec2: Any) -> list[dict[str, Any]]:
    """Every Capacity Block reservation of the account and region as boto3 shows it; raises botocore's errors."""
    found: list[dict[str, Any]] = []
    token: str | None = None
    while True:
        answer = ec2.describe_capacity_reservations(**({"NextToken": token} if token else {}))
        found += [one for one in answer["CapacityReservations"] if one.get("ReservationType") == "capacity-block"]
        token = answer.get("NextToken")
        if not token:
            return found


def dry_run(call: Callable[..., Any], asked: dict[str, Any]) -> None:
    """Ask EC2 whether the call would succeed; raises JobError with its reason where not, as nothing is bought then."""
    try:
        call(**asked, DryRun=True)
    except ClientError as error:
        if error_code(error) != "DryRunOperation":
            raise JobError(
                f"EC2 would not sell it: {error_message(error)} ({error_code(error)}); nothing was bought. Offering ids "
                "end soon: `dormouse block find` shows what is on offer now"
            ) from error


def once(call: Callable[..., Any], asked: dict[str, Any], on_refusal: Callable[[], None]) -> dict[str, Any] | None:
    """EC2's answer, or None where it stays unknown whether the call was carried out.

    Raises JobError where EC2 certainly refused, after `on_refusal`.
    """
    try:
        return call(**asked)
    except ClientError as error:
        response: Any = error.response
        if int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) >= _SURE_REFUSALS or error_code(
            error
        ) in ("InternalError", "RequestTimeout", "RequestTimeoutException", "Unavailable", "ServiceUnavailable"):
            return None
        on_refusal()
        raise JobError(
            f"EC2 refused the purchase: {error_message(error)} ({error_code(error)}); nothing was bought"
        ) from error
    except BotoCoreError:
        return None


def usd(sum_usd: Decimal) -> str:
    """Dollars with cents: `$23,884.80`."""
    return f"${sum_usd:,.2f}"


def _is(described: dict[str, Any], tags: dict[str, str], offer: Offer, token: str, began: datetime) -> bool:
    """Whether the reservation is this purchase: by its tag, or by everything that the offering says."""
    if TOKEN_TAG in tags:
        return tags[TOKEN_TAG] == token
    made = described.get("CreateDate")
    return (
        described.get("InstanceType") == offer.instance_type
        and described.get("AvailabilityZone") == offer.zone
        and int(described.get("TotalInstanceCount") or 0) == offer.count
        and described["StartDate"].astimezone(UTC) == offer.start
        and isinstance(made, datetime)
        # Clocks of two machines differ a little.
        and made.astimezone(UTC) >= began - timedelta(minutes=5)
    )

"""All questions at once, within one time limit: a failed or unanswered one is a finding as well."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.preflight.checks import account, purchases, quotas, sources, versions
from infra.preflight.findings import Finding, Level, from_error, warning
from infra.preflight.question import Question

LIMIT_S = 20.0


@dataclass(frozen=True)
class Check:
    """One question: its stable name, the service that it asks, the function that asks."""

    name: str
    service: str
    run: Callable[[Question], list[Finding]]


CHECKS = (
    Check("credentials", "sts", account.credentials),
    Check("zones", "ec2", account.zones),
    Check("quota-vcpus", "service-quotas", quotas.vcpus),
    Check("quota-others", "service-quotas", quotas.others),
    Check("reservations", "ec2", purchases.reservations),
    Check("blocks", "ec2", purchases.offers),
    Check("spot", "ec2", purchases.spot_prices),
    Check("kubernetes", "eks", versions.kubernetes),
    Check("addons", "eks", versions.addons),
    Check("subnets", "ec2", account.subnets),
    Check("weights", "hub", sources.weights),
    Check("images", "registry", sources.images),
)


@dataclass(frozen=True)
class Preflight:
    """Every finding, in the order of the checks."""

    environment: str
    findings: tuple[Finding, ...]
    took_s: float

    @property
    def stopped(self) -> bool:
        """Whether anything stops the stack."""
        return any(one.level is Level.STOPS for one in self.findings)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON in camelCase."""
        return {
            "environment": self.environment,
            "stopped": self.stopped,
            "tookSeconds": round(self.took_s, 1),
            "findings": [one.to_mapping() for one in self.findings],
        }


def preflight(
    question: Question,
    on_answer: Callable[[str], None] = lambda _name: None,
    *,
    limit_s: float = LIMIT_S,
    checks: tuple[Check, ...] = CHECKS,
) -> Preflight:
    """Ask everything concurrently; `on_answer` is called with each check's name as its answer comes. Changes nothing."""
    began = time.monotonic()
    answers: queue.SimpleQueue[tuple[str, list[Finding]]] = queue.SimpleQueue()

    def answer(check: Check) -> None:
        try:
            answers.put((check.name, check.run(question)))
        except Exception as error:  # noqa: BLE001, any failure is an answer
            answers.put((check.name, [from_error(check.name, error, check.service)]))

    for check in checks:
        # Daemons: one that hangs must not keep the command from ending.
        threading.Thread(target=answer, args=(check,), daemon=True).start()
    found: dict[str, list[Finding]] = {}
    while len(found) < len(checks):
        left = began + limit_s - time.monotonic()
        try:
            name, findings = answers.get(timeout=max(0.0, left))
        except queue.Empty:
            break
        found[name] = findings
        on_answer(name)
    for check in checks:
        late = f"not known: no answer within {limit_s:g} s"
        found.setdefault(check.name, [warning(check.name, late, "check the network; run it again")])
    ordered = tuple(one for check in checks for one in found[check.name])
    return Preflight(question.environment.name, ordered, time.monotonic() - began)

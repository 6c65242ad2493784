"""A finding: what was asked, how it stands, why, and what to do. A refused or unanswered question is one too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from typing import Any

from botocore.exceptions import BotoCoreError

from infra.jobs.aws_errors import error_code, error_message, error_operation

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
_NO_CREDENTIALS = (
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "UnauthorizedSSOTokenError",
    "SSOTokenLoadError", "TokenRetrievalError", "ProfileNotFound",
)  # fmt: skip
_BAD_CREDENTIALS = (
    "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure",
)  # fmt: skip
_THROTTLED = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException")
_SERVICES = {"ec2": "ec2", "sts": "sts", "eks": "eks", "service-quotas": "servicequotas"}


class Level(StrEnum):
    """How a finding stands; `not-asked` is neither good nor bad, and its words say why nobody asked."""

    OK = "ok"
    WARNING = "warning"
    STOPS = "stops you"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Finding:
    """One answer.

    - `check`: the question's stable name, such as `quota-on-demand`.
    - `words`: the reason; `remedy`: what to do, with the code or the command, or empty.
    - `facts`: plain JSON for `--json`.
    """

    check: str
    level: Level
    words: str
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON in camelCase."""
        return {
            "check": self.check,
            "level": self.level.value,
            "words": self.words,
            "remedy": self.remedy,
            "facts": dict(self.facts),
        }


def ok(check: str, words: str, **facts: Any) -> Finding:
    """A good answer."""
    return Finding(check, Level.OK, words, "", facts)


def warning(check: str, words: str, remedy: str = "", **facts: Any) -> Finding:
    """Something that may matter."""
    return Finding(check, Level.WARNING, words, remedy, facts)


def stops(check: str, words: str, remedy: str, **facts: Any) -> Finding:
    """Something with which it cannot work."""
    return Finding(check, Level.STOPS, words, remedy, facts)


def not_asked(check: str, words: str) -> Finding:
    """Nobody asked, and why."""
    return Finding(check, Level.NOT_ASKED, words)


def from_error(check: str, error: Exception, service: str) -> Finding:
    """What a failed question says: only missing credentials stop, everything else leaves the answer open."""
    name, code = type(error).__name__, error_code(error)
    if name in _NO_CREDENTIALS:
        return stops(check, "no AWS credentials were found", "sign in with `aws sso login`, or set AWS_PROFILE")
    if code in _BAD_CREDENTIALS:
        remedy = "sign in again with `aws sso login`, or set AWS_PROFILE"
        return stops(check, f"AWS does not accept these credentials ({code})", remedy)
    if code in _DENIED:
        action = f"{_SERVICES.get(service, service)}:{error_operation(error)}"
        words = f"not known: this identity may not call {action}"
        return warning(check, words, f"allow {action} and run it again, or ask who may", deniedAction=action)
    if code in _THROTTLED:
        return warning(check, f"not known: AWS is throttling {error_operation(error)}", "run it again in a minute")
    if code:
        said = " ".join(error_message(error).split())
        return warning(check, f"not known: AWS refused {error_operation(error)} ({code}): {said}", "run it again")
    said = " ".join(str(error).split())
    if isinstance(error, (BotoCoreError, OSError, HTTPException)):
        remedy = "check the network, a proxy and the region; run it again"
        return warning(check, f"not known: no answer ({name}: {said})", remedy)
    return warning(check, f"not known: unexpected {name}: {said}", "this is a fault in Dormouse; the rest holds")

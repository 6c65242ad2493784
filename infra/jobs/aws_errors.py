"""A refused AWS call, taken apart; the only place that looks into botocore's untyped errors."""

from typing import Any, cast

from botocore.exceptions import ClientError

_THROTTLED = frozenset(
    (
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
    )
)


def is_throttled(error: BaseException) -> bool:
    """Whether AWS refused the call only because there were too many."""
    return error_code(error) in _THROTTLED


def error_code(error: BaseException) -> str:
    """AWS's code of a ClientError, such as `AccessDeniedException`; empty for any other error."""
    return str(_part(error).get("Code", ""))


def error_message(error: BaseException) -> str:
    """AWS's own sentence; empty for any other error."""
    return str(_part(error).get("Message", ""))


def error_operation(error: BaseException) -> str:
    """The call that was refused, such as `DescribeCluster`; empty for any other error."""
    return str(cast("Any", error).operation_name) if isinstance(error, ClientError) else ""


def _part(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, ClientError):
        return {}
    response = cast("dict[str, Any]", cast("Any", error).response)
    return cast("dict[str, Any]", response.get("Error") or {})

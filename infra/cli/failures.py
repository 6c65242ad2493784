"""A failure in words: what was tried, what refused, what to do."""

import re

from serving.errors import ConfigurationError, DormouseError

_FAILED, _WRONG_USAGE = 1, 2
_SIGN_IN = "sign in with `aws sso login`, or set AWS_PROFILE or the AWS_ACCESS_KEY_ID family of variables"
_DENIED_CODES = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError")
_EXPIRED_CODES = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "AuthFailure",
    "SignatureDoesNotMatch",
)
# Of botocore's errors that come before AWS is reached, by class name, since botocore is imported late.
_LOCAL = {
    "NoCredentialsError": f"no AWS credentials were found; {_SIGN_IN}",
    "PartialCredentialsError": f"the AWS credentials are incomplete; {_SIGN_IN}",
    "CredentialRetrievalError": f"the AWS credentials could not be fetched; {_SIGN_IN}",
    "UnauthorizedSSOTokenError": f"the AWS session has expired; {_SIGN_IN}",
    "SSOTokenLoadError": f"there is no AWS session; {_SIGN_IN}",
    "TokenRetrievalError": f"the AWS session could not be renewed; {_SIGN_IN}",
    "ProfileNotFound": "the AWS profile does not exist; `aws configure list-profiles` shows which do",
}
_UNREACHABLE = (
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ConnectionClosedError",
    "ProxyConnectionError",
    "SSLError",
)


def explain(error: Exception) -> tuple[str, int]:
    """The paragraph to print and the exit code; never a traceback."""
    if isinstance(error, ConfigurationError):
        return str(error), _WRONG_USAGE
    if isinstance(error, DormouseError):
        return str(error), _FAILED
    if type(error).__module__.startswith(("botocore", "boto3")):
        return _aws(error), _FAILED
    if isinstance(error, OSError):
        what = f" ({error.filename})" if error.filename else ""
        return f"the system refused: {error.strerror or error}{what}", _FAILED
    text = (
        f"unexpected {type(error).__name__}: {error}. This is a fault in Dormouse; DORMOUSE_TRACEBACK=1 shows where, "
        "and running the command again is safe"
    )
    return text, _FAILED


def _aws(error: Exception) -> str:
    from infra.jobs.aws_errors import error_code, error_message, error_operation

    name = type(error).__name__
    said = " ".join(str(error).split())
    if name in _LOCAL:
        return f"{_LOCAL[name]}. ({said})"
    if name in _UNREACHABLE:
        return (
            f"AWS could not be reached: {said} Check the network, a proxy, the region, and whether AWS_ENDPOINT_URL "
            "points to something that no longer runs. Running the command again is safe"
        )
    code, operation, message = error_code(error), error_operation(error), error_message(error)
    if code in _DENIED_CODES:
        return f"AWS denied {operation}: the identity lacks the permission {_permission(message, operation)}. {message}"
    if code in _EXPIRED_CODES:
        return f"AWS does not accept these credentials for {operation} ({code}): {message}; {_SIGN_IN}"
    if "Throttl" in code or code == "RequestLimitExceeded":
        return f"AWS is throttling {operation} ({code}); wait a minute and run the command again"
    if code:
        return f"AWS refused {operation} ({code}): {message}. Running the command again is safe"
    return f"AWS could not be asked: {said}"


def _permission(message: str, operation: str) -> str:
    """The IAM action, as AWS names it, or guessed from the call."""
    found = re.search(r"perform:? ([a-z0-9-]+:[A-Za-z*]+)", message)
    return found[1] if found else f"for {operation}"

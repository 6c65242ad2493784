"""The regional copy of the weights, looked at before a machine is paid for that would load from it."""

from botocore.exceptions import BotoCoreError, ClientError

from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.clients import Clients
from serving.weights.marker import MARKER_PATH

_FILL = "`dormouse weights hydrate` fills it"
_ABSENT = ("NoSuchKey", "NoSuchBucket", "404")


def copy_problem(clients: Clients, uri: str) -> tuple[str, str]:
    """Why nothing can load from the copy at `uri` (`s3://bucket/folder`), and why that could not be looked at.

    Both are empty where the hydrator's marker, which it writes last, is there. Raises nothing.
    """
    bucket, _, folder = uri.removeprefix("s3://").partition("/")
    if not bucket:
        return "the stack keeps no copy of the weights in S3; weightsS3Copy: true and `pulumi up` make one", ""
    try:
        found = clients.s3.head_object(Bucket=bucket, Key=f"{folder}/{MARKER_PATH}")
    except ClientError as error:
        if error_code(error) in _ABSENT:
            return f"the copy of the weights at {uri} is not there: {_FILL}", ""
        return "", f"{error_code(error)}: {error_message(error)}"
    except BotoCoreError as error:
        return "", " ".join(str(error).split())
    if not found["ContentLength"]:
        return f"the copy of the weights at {uri} is being filled, or its filling was interrupted: {_FILL}", ""
    return "", ""

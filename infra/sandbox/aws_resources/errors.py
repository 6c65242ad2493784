"""What AWS refuses, in the words of the AWS provider for Pulumi, so that a message can be searched for."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from serving.errors import DormouseError

_GONE_CODES = frozenset(
    {
        "NoSuchEntity",
        "NotFound",
        "NoSuchHostedZone",
        "ResourceNotFound",
        "404",
        "InvalidPlacementGroup.Unknown",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "ServerSideEncryptionConfigurationNotFoundError",
    }
)


class AwsResourceError(DormouseError):
    """One AWS resource could not be created, read, changed or deleted; the message holds AWS's own text."""


class HalfCreatedError(AwsResourceError):
    """The resource exists in AWS but did not become usable.

    - `id`: its AWS id, which must be kept so that it can be repaired or deleted.
    - `outputs`: what is known of it.
    """

    def __init__(self, message: str, resource_id: str, outputs: dict[str, Any]) -> None:
        """Keep what exists beside the message."""
        super().__init__(message)
        self.id = resource_id
        self.outputs = outputs


def error_code(error: ClientError) -> str:
    """AWS's error code, such as `InvalidParameterException`; empty where the answer held none."""
    response: dict[str, Any] = error.response  # pyright: ignore[reportAssignmentType]
    return str(response.get("Error", {}).get("Code", ""))


def is_gone(error: ClientError) -> bool:
    """Whether AWS says that the thing named in the call does not exist."""
    code = error_code(error)
    return code in _GONE_CODES or code.endswith((".NotFound", "NotFoundException", "NotFound"))


@contextmanager
def refusals_as(action: str, service: str) -> Generator[None]:
    """Turn an error of boto3 into an AwsResourceError `{action}: operation error {service}: …`.

    - `action`: what was going on and with what, such as `creating EKS Node Group (dev:gpu)`.
    """
    try:
        yield
    except ClientError as error:
        response: dict[str, Any] = error.response  # pyright: ignore[reportAssignmentType]
        meta = response.get("ResponseMetadata", {})
        raise AwsResourceError(
            f"{action}: operation error {service}: {error.operation_name}, https response error StatusCode: "
            f"{meta.get('HTTPStatusCode', 'unknown')}, RequestID: {meta.get('RequestId', 'none')}, "
            f"{error_code(error)}: {response.get('Error', {}).get('Message', '')}"
        ) from error
    except ResponseParserError as error:
        # What the simulation answers where a call fails inside it.
        raise AwsResourceError(f"{action}: {service}: the simulated AWS failed with HTTP status 500") from error
    except BotoCoreError as error:
        raise AwsResourceError(f"{action}: {service}: {error}") from error

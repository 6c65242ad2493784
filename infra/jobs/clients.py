"""Connections of a job to one stack's AWS account and cluster, and the guard against the wrong account."""

from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from infra.jobs.aws_errors import error_code
from infra.jobs.eks_token import eks_token
from infra.jobs.kubernetes_api import KubernetesApi
from infra.outputs import StackOutputs
from serving.errors import JobError

# A message is a courtesy, so nobody waits long for it.
_EVENT_CONFIG = Config(
    connect_timeout=3,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 2},
    user_agent_extra="dormouse",
)

# The simulated cloud takes any key; the user's own must not be sent to it.
_SANDBOX_KEY = "testing"
_CONFIG = Config(
    connect_timeout=5,
    read_timeout=30,
    # Adaptive: a throttled call is tried again after a jittered pause, and the next ones slow down by themselves.
    retries={"mode": "adaptive", "total_max_attempts": 6},
    user_agent_extra="dormouse",
)


class WrongAccountError(JobError):
    """The credentials belong to another account than the stack."""


class Clients:
    """The AWS clients and the Kubernetes API of one stack; `connect` makes them.

    `eks`, `ec2`, `autoscaling`, `sts` are boto3 clients in the stack's region.
    """

    def __init__(self, session: Any, region: str, cluster_name: str, endpoint_url: str | None) -> None:
        """Keep `session`; nothing is asked before first use."""
        self._session = session
        self._region = region
        self.cluster_name = cluster_name
        self._endpoint_url = endpoint_url
        self.eks: Any = self._client("eks")
        self.ec2: Any = self._client("ec2")
        self.autoscaling: Any = self._client("autoscaling")
        self.sts: Any = self._client("sts")

    def _client(self, service: str, config: Config = _CONFIG) -> Any:
        return self._session.client(service, region_name=self._region, endpoint_url=self._endpoint_url, config=config)

    @cached_property
    def sns(self) -> Any:
        """The boto3 client for events, which gives up quickly."""
        return self._client("sns", _EVENT_CONFIG)

    @cached_property
    def s3(self) -> Any:
        """The boto3 client of the regional copy's bucket."""
        return self._client("s3")

    @cached_property
    def kubernetes(self) -> KubernetesApi:
        """The cluster's API server, found by DescribeCluster at first use.

        Raises JobError where the cluster does not exist or has no endpoint yet, and botocore's errors.
        """
        try:
            cluster: dict[str, Any] = self.eks.describe_cluster(name=self.cluster_name)["cluster"]
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise JobError(
                    f"cluster {self.cluster_name} does not exist in {self._region}: the stack was destroyed or "
                    "never came up; `pulumi up` makes it"
                ) from error
            raise
        endpoint = cluster.get("endpoint")
        if not endpoint:
            raise JobError(
                f"cluster {self.cluster_name} has no endpoint yet (status {cluster.get('status')}); "
                "run again when `pulumi up` has ended"
            )
        authority: dict[str, Any] = cluster.get("certificateAuthority") or {}
        return KubernetesApi(
            endpoint, authority.get("data") or "", lambda: eks_token(self._session, self.cluster_name, self._region)
        )


def connect(outputs: StackOutputs, *, endpoint_url: str | None = None, simulated: bool = False) -> Clients:
    """Clients for the stack, after STS has confirmed the account.

    - `endpoint_url`: where AWS is, instead of AWS itself; without it the environment's AWS_ENDPOINT_URL counts.
    - `simulated`: the endpoint is the sandbox, so that the user's own credentials stay unused.

    Raises WrongAccountError, naming both accounts, and botocore's errors where STS cannot be asked.
    """
    keys = (
        {"aws_access_key_id": _SANDBOX_KEY, "aws_secret_access_key": _SANDBOX_KEY, "aws_session_token": None}
        if simulated
        else {}
    )
    session: Any = boto3.Session(region_name=outputs.region, **keys)
    clients = Clients(session, outputs.region, outputs.cluster_name, endpoint_url)
    identity = clients.sts.get_caller_identity()
    if identity["Account"] != outputs.account_id:
        raise WrongAccountError(
            f"these credentials ({identity.get('Arn')}) belong to account {identity['Account']}, but stack "
            f"{outputs.environment} lives in account {outputs.account_id}; nothing was changed: choose the right "
            "profile with AWS_PROFILE, or the right stack with --stack or --outputs"
        )
    return clients

from collections.abc import Iterator

import pytest

from infra.sandbox.aws_resources import AwsClients
from tests.sandbox.aws_account import Surroundings, account


@pytest.fixture(scope="module")
def aws() -> Iterator[AwsClients]:
    """An empty simulated account, one for each test file."""
    with account() as clients:
        yield clients


@pytest.fixture(scope="module")
def around(aws: AwsClients) -> Surroundings:
    """A VPC with two subnets, a role and a cluster."""
    return Surroundings(aws)

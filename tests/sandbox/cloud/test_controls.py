import time

import pytest

from infra.sandbox.cloud.admin import CloudAdmin
from serving.errors import DormouseError
from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import World


def test_a_wrong_address_or_request_is_said_plainly(world: World) -> None:
    with pytest.raises(DormouseError, match="they start with http://"):
        CloudAdmin("file:///etc/passwd")
    with pytest.raises(DormouseError, match="the cloud's clock is no ScaledClock"):
        world.server.admin.clock()


def test_what_is_not_simulated_is_refused_at_once(world: World, refuses: Refuses) -> None:
    started = time.monotonic()
    message = refuses("InvalidAction", world.ec2.describe_fast_launch_images)
    assert message == "The simulated cloud has no ec2 DescribeFastLaunchImages"
    message = refuses("InvalidAction", world.eks.list_insights, clusterName="dev")
    assert message == "The simulated cloud has no eks ListInsights"
    message = refuses("InvalidAction", world.client("budgets").describe_budget_actions_for_account, AccountId="1" * 12)
    assert message == "The simulated cloud has no budgets DescribeBudgetActionsForAccount"
    # boto3 would take seconds over a server's error, asking again and again.
    assert time.monotonic() - started < 3

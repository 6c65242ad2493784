"""What a stack adds to a load run: its pods' metrics through the API server, and what its machines cost an hour."""

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import KubernetesError
from infra.jobs.observation import READY
from infra.jobs.observe import observe
from infra.jobs.operation import hourly
from infra.jobs.state import slot_serving
from infra.load.watch import MetricsUnreadable, Pages
from infra.outputs import StackOutputs
from serving.engine_args import ENGINE_PORT
from serving.errors import JobError


def stack_pages(outputs: StackOutputs, clients: Clients, clock: Clock) -> tuple[Pages, float | None, str]:
    """The metrics of every pod that serves now, what their machines cost an hour (None if unknown), and that in words.

    Raises JobError where nothing serves.
    """
    seen = observe(outputs, clients, clock)
    pods = [pod for pod in seen.pods if pod.phase == READY]
    if not pods:
        raise JobError("nothing serves in this stack, so there is nothing to load; `dormouse wake` starts it")
    slots = [view.slot for pod in pods if (view := slot_serving(pod, seen)) is not None]
    prices = [slot.usd_per_hour for slot in slots]
    known = [price for price in prices if price is not None]
    usd_per_hour = sum(known) if known and len(known) == len(pods) else None
    names = ", ".join(slot.name for slot in slots) or "no known candidate"

    def pages() -> list[str]:
        try:
            return [
                clients.kubernetes.get_text(
                    f"/api/v1/namespaces/{outputs.namespace}/pods/{pod.name}:{ENGINE_PORT}/proxy/metrics"
                )
                for pod in pods
            ]
        except KubernetesError as error:
            raise MetricsUnreadable(error.message) from error

    return pages, usd_per_hour, f"{names} at {hourly(usd_per_hour)}"

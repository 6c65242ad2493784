"""What vLLM's metrics page says about running work."""

from infra.jobs.observation import Requests

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"


def parse_requests(page: str) -> Requests | None:
    """Sum the running and waiting requests of every engine on a Prometheus text page.

    None where either is absent or no number: unknown is never read as idle.
    """
    totals: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        value = rest.rpartition("}")[2] if rest else line.partition(" ")[2]
        name = name.split(" ", 1)[0]
        if name in (_RUNNING, _WAITING):
            try:
                # A sample may carry a time stamp after its value.
                totals[name] = totals.get(name, 0.0) + float(value.split()[0])
            except (ValueError, IndexError):
                return None
    try:
        return Requests(running=round(totals[_RUNNING]), waiting=round(totals[_WAITING]))
    except (KeyError, ValueError, OverflowError):
        return None

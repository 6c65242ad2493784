"""The tour behind `make try`: one environment from nothing to awake and back to asleep, on the simulated cloud."""

import contextlib
import io
import sys
import time
from pathlib import Path

from infra.cli.deploy_view import DeployView
from infra.cli.main import main
from infra.jobs.progress import Step
from infra.plan import plan_file
from infra.sandbox.controls import refuse, send_requests
from infra.sandbox.deployment import ResourceEvent
from infra.sandbox.session import down, up
from infra.sandbox.state import SandboxState, read_state

_KINDS = {
    "aws:ec2": "network and launch templates",
    "aws:eks": "cluster, add-ons, node groups",
    "aws:iam": "roles and policies",
    "aws:ebs": "weight volumes (protected)",
    "kubernetes": "Kubernetes objects",
}
_REST = "key, logs, budget, topic, schedules"


def tour(stack_file: Path, speed: float, *, keep: bool) -> int:
    """Run the tour and return an exit code; raises what a wrong stack file raises.

    - `speed`: simulated seconds in one real second.
    - `keep`: leave the sandbox running at the end.
    """
    if read_state() is not None:
        print("a sandbox runs already; `dormouse sandbox down` ends it, then try again", file=sys.stderr)
        return 1
    began_s = time.monotonic()
    _title("Dormouse, on a simulated cloud")
    _say(
        "Everything below happens on this machine: AWS is a simulation (moto and the EKS behaviour it lacks), Kubernetes"
        " an API server stand-in, no GPU and no model is there. The program, the command line and the jobs are the real"
        f" ones. One real second is {speed:g} simulated ones."
    )
    _title(f"1. The plan of {stack_file.name}: does it fit, what does it cost?")
    print("\n".join(plan_file(stack_file).lines()))

    _title("2. Up: the Pulumi program makes every resource")
    counts: dict[str, int] = {}
    with DeployView() as view:

        def made(event: ResourceEvent) -> None:
            view(event)
            _count(event, counts)

        up(stack_file, speed, made)
    try:
        for kind, count in counts.items():
            print(f"  {count:>3}  {kind}")
        print(
            f"  {sum(counts.values()):>3}  in all; GPU node groups stand at 0, and the weight volumes count as hydrated"
        )
        _command("status")

        _title("3. Wake: spot has run out in this simulation, so the next candidate is tried")
        refuse("spot", None)
        code = _job("wake")
        if code:
            return code
        _command("status")

        _title("4. Hibernate while three answers are being streamed: they are waited for")
        send_requests(3, 150.0)
        code = _job("hibernate")
        if code:
            return code
        _command("status")

        _title("What you saw")
        _summary(stack_file, time.monotonic() - began_s)
    finally:
        if not keep:
            down()
    if keep:
        _say("The sandbox goes on running: `dormouse status --sandbox`, `dormouse sandbox down`.")
    return 0


def _count(event: ResourceEvent, counts: dict[str, int]) -> None:
    if event.kind == "created" and not event.type.startswith("pulumi:"):
        kind = next((words for prefix, words in _KINDS.items() if event.type.startswith(prefix)), _REST)
        counts[kind] = counts.get(kind, 0) + 1


def _command(name: str) -> None:
    """Run a command as a user would, and show it."""
    print(f"\n$ dormouse {name} --sandbox", flush=True)
    # The command says each time that the cloud is simulated; here it has been said.
    with contextlib.redirect_stderr(io.StringIO()):
        main([name, "--sandbox"])
    sys.stdout.flush()


def _look() -> None:
    """What the status command says meanwhile in another terminal: its first two lines."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        main(["status", "--sandbox"])
    print("            (meanwhile, $ dormouse status --sandbox)")
    for line in output.getvalue().splitlines()[:2]:
        print(f"            {line}", flush=True)


def _job(name: str) -> int:
    """Run a job with its steps as lines, whatever standard error is."""
    from infra.jobs.clients import connect
    from infra.jobs.hibernate import HibernateRequest, hibernate
    from infra.jobs.wake import WakeRequest, wake

    state = SandboxState.load()
    clients = connect(state.outputs, endpoint_url=state.aws_endpoint_url, simulated=True)
    print(f"\n$ dormouse {name} --sandbox", flush=True)
    shown: list[str] = []
    looked: list[str] = []

    def show(step: Step) -> None:
        if step.text not in shown:
            shown.append(step.text)
            print(f"  {step.at:%H:%M:%S}  {step.text}", flush=True)
            if step.stage == "loading" and not looked:
                looked.append(step.stage)
                _look()

    if name == "wake":
        report = wake(state.outputs, clients, state.clock, show, WakeRequest())
    else:
        report = hibernate(state.outputs, clients, state.clock, show, HibernateRequest())
    return 0 if report.state == ("awake" if name == "wake" else "asleep") else 1


def _summary(stack_file: Path, took_s: float) -> None:
    plan = plan_file(stack_file)
    day = plan.cost.asleep_usd_per_day
    floor = "an unknown amount" if day is None else f"${day:,.2f}"
    print(
        f"""\
  - the plan was proven before anything was made; a model that does not fit never gets this far
  - waking tried the candidates in order and went on after a refusal
  - a running answer was finished before the machine was given back
  - asleep, the environment costs {floor} a day; the weights stay on their volume

  {took_s:.0f} s on this machine, on a simulated cloud. How to go on:
    source .venv/bin/activate      brings the `dormouse` command
    dormouse sandbox up            keep one running and play: dormouse wake --sandbox, sandbox refuse spot, …
    dormouse plan                  the plan above for your own Pulumi.NAME.yaml
    make test                      the tests
    README.md                      the real thing on AWS, step by step with costs"""
    )


def _title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}", flush=True)


def _say(text: str) -> None:
    import textwrap

    print(textwrap.fill(text, 110), flush=True)

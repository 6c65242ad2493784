"""A stack with several replicas: each lane by the same rules as a stack with one, in turn, under one lock.

A lane is what one replica may run on: its own candidates, node groups, Deployments and volumes. Nothing of one lane is
ever given to another, so "never on two slots at once" holds lane by lane.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from infra.jobs.operation import Operation
from infra.jobs.progress import Report
from infra.outputs import StackOutputs
from serving.errors import CapacityError, ConfigurationError, DormouseError, Fault, JobError


def lane_of(operation: Operation, replica: int) -> Operation:
    """The same job, under the same lock, that sees and changes one lane alone."""
    return Operation(
        operation.outputs.lane(replica), operation.clients, operation.clock, operation.journal, operation.lock
    )


def first_lanes(outputs: StackOutputs, replicas: int | None, option: str, *, least: int) -> tuple[int, ...]:
    """The first `replicas` lanes, all for None; raises ConfigurationError naming `option` below `least` or above all."""
    if replicas is None:
        return outputs.lanes
    if not least <= replicas <= len(outputs.lanes):
        raise ConfigurationError(
            [Fault(option, str(replicas), f"{least} to {len(outputs.lanes)}, as many as the stack has replicas")],
            "the command line",
        )
    return outputs.lanes[:replicas]


def in_turn(
    operation: Operation,
    lanes: Sequence[int],
    job: Callable[[Operation], Report],
    go_on_after: tuple[type[DormouseError], ...],
) -> Report:
    """Run `job` on each of `lanes` and tell of all of them; a stack with one lane runs it on the whole.

    - `go_on_after`: failures of one lane that do not keep the others from their turn.

    Raises the failures at the end as one, of the kind of the first; what succeeded stays done.
    """
    if len(operation.outputs.lanes) < 2:
        return job(operation)
    reports: dict[int, Report] = {}
    failures: dict[int, DormouseError] = {}
    for replica in lanes:
        operation.journal.say("replica", f"replica {replica}")
        try:
            reports[replica] = job(lane_of(operation, replica))
        except go_on_after as error:
            failures[replica] = error
    if failures:
        told = "\n".join(
            [f"replica {replica}: {report.sentence}" for replica, report in reports.items()]
            + [f"replica {replica}: {error}" for replica, error in failures.items()]
        )
        words = f"{len(failures)} of {len(lanes)} replicas could not be brought there:\n{told}"
        first = next(iter(failures.values()))
        raise CapacityError(words) if isinstance(first, CapacityError) else JobError(words)
    return together(reports)


def together(reports: dict[int, Report]) -> Report:
    """One report of several lanes', by their numbers; a single one says which lane it is of."""
    last = list(reports.values())[-1]
    return replace(
        last,
        changed=any(report.changed for report in reports.values()),
        sentence="; ".join(f"replica {replica} {report.sentence}" for replica, report in reports.items()),
        slot=next((report.slot for report in reports.values() if report.slot), None),
        refusals=tuple(refusal for report in reports.values() for refusal in report.refusals),
    )

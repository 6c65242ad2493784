"""The state of a stack with several replicas: that of each lane, and one for the whole."""

from dataclasses import replace

from infra.jobs.observation import Observation
from infra.jobs.state import State, StateKind, state_of

# What says most about the whole, first: what needs a person, then what is on its way, then what is at rest.
_WEIGHT = (
    StateKind.INCONSISTENT,
    StateKind.UNKNOWN,
    StateKind.DRAINING,
    StateKind.STOPPING,
    StateKind.WAKING,
    StateKind.AWAKE,
    StateKind.ASLEEP,
)


def lane_observation(seen: Observation, replica: int) -> Observation:
    """What was seen of one lane."""
    slots = tuple(view for view in seen.slots if view.slot.replica == replica)
    deployments = {name for view in slots for name in view.slot.deployment_names}
    volumes = {volume for view in slots for volume in view.slot.volume_ids}
    return replace(
        seen,
        slots=slots,
        deployments=tuple(view for view in seen.deployments if view.name in deployments),
        volumes=tuple(view for view in seen.volumes if view.volume_id in volumes),
    )


def lane_states(seen: Observation) -> dict[int, State]:
    """The state of each lane, by its number."""
    lanes = sorted({view.slot.replica for view in seen.slots})
    return {replica: state_of(lane_observation(seen, replica)) for replica in lanes}


def stack_state(seen: Observation) -> State:
    """The state of the whole: that of the only lane, or the weightiest of several with a word on each."""
    states = lane_states(seen)
    if len(states) < 2:
        return state_of(seen)
    first = min(states.values(), key=lambda state: _WEIGHT.index(state.kind))
    awake = sum(state.kind is StateKind.AWAKE for state in states.values())
    told = "; ".join(f"replica {replica} {state}: {state.why}" for replica, state in states.items())
    return replace(first, why=f"{awake} of {len(states)} replicas awake; {told}")

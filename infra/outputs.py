"""What a stack exports and every job reads: one definition, written by the program, read from state or from a file.

Jobs know nothing else of a stack: not its configuration, not its code. The exported JSON is camelCase, as Pulumi
users expect, and holds no secret.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any, cast

from serving.errors import ConfigurationError, Fault


@dataclass(frozen=True)
class Slot:
    """One capacity candidate: a node group pinned to a zone, and the Deployment that serves from that zone's volume.

    - `name`: unique in the stack and stable, such as `spot-use2-az3`.
    - `purchase`: `on-demand`, `spot` or `capacity-block`.
    - `zone`, `zone_id`: the zone's name in this account (`us-east-2a`) and its id everywhere (`use2-az1`).
    - `deployment_name`: the Deployment that serves here.
    - `volume_id`: the weight volume that its claim is bound to; "" where the zone has none and it streams from S3.
    - `loads_from_s3`: whether its pods read the regional copy, because the zone has no volume or by choice.
    - `patience_s`: how long a wake waits here for a node before it tries the next candidate.
    - `reservation_id`: the Capacity Block's reservation, or None.
    - `usd_per_hour`: what the candidate's nodes cost together, or None where no price is known.
    - `replica`: the lane that the candidate belongs to, from 0; a lane is what one replica may run on.
    - `nodes`: machines that one replica takes. With more than one the group is raised to that many at once.
    - `worker_deployment_names`, `worker_volume_ids`: of the machines after the first, in the order of their ranks.
    """

    name: str
    purchase: str
    instance_type: str
    zone: str
    zone_id: str
    node_group_name: str
    deployment_name: str
    volume_id: str
    patience_s: int
    reservation_id: str | None = None
    usd_per_hour: float | None = None
    replica: int = 0
    nodes: int = 1
    worker_deployment_names: tuple[str, ...] = ()
    worker_volume_ids: tuple[str, ...] = ()
    loads_from_s3: bool = False

    @property
    def deployment_names(self) -> tuple[str, ...]:
        """Every Deployment of the replica here, the one that callers reach first."""
        return (self.deployment_name, *self.worker_deployment_names)

    @property
    def volume_ids(self) -> tuple[str, ...]:
        """Every weight volume of the replica here, in the order of the ranks; empty where it streams from S3."""
        return tuple(one for one in (self.volume_id, *self.worker_volume_ids) if one)

    @property
    def streams_from_s3(self) -> bool:
        """Whether the zone has no weight volume."""
        return not self.volume_id


@dataclass(frozen=True)
class StackOutputs:
    """The exported outputs.

    - `environment`: the stack's name, such as `dev`.
    - `service_name`, `service_port`: the Service that callers reach inside the cluster.
    - `slots`: the capacity candidates in the order of preference, lane by lane.
    - `gpus_per_node`: GPUs that one replica takes on each of its machines.
    - `startup_window_s`: the longest start that the startup probe allows.
    - `drain_s`: how long vLLM goes on answering after SIGTERM.
    - `planned_load_s`: weights bytes ÷ volume throughput plus the compile allowance; an estimate.
    - `weights_bytes`, `kv_cache_tokens`: from the memory plan.
    - `asleep_usd_per_day`: what is still billed while asleep, or None where a price is unknown.
    - `replicas`: lanes, each with slots of its own; one of them serves one replica.
    - `topic_arn`: the SNS topic that jobs tell their turns to, or None.
    - `volume_mib_per_s`, `volume_iops`: of each weight volume for a wake; 0 where older outputs do not say.
    - `volume_asleep_mib_per_s`: of each weight volume while asleep; the same as awake where nothing changes it.
    - `weights_copy_uri`: the regional copy of the model's folder, `s3://bucket/model`, or "".
    - `policy`: when it is to sleep and what it may cost, as JSON that `dormouse brain` reads; None takes the defaults.
    - `return_to_preferred`: whether a stack that had to leave a better candidate goes back once that may have a node.
    """

    environment: str
    region: str
    account_id: str
    cluster_name: str
    namespace: str
    service_name: str
    service_port: int
    model: str
    served_model_name: str
    api_key_secret_name: str
    slots: tuple[Slot, ...]
    gpus_per_node: int
    startup_window_s: int
    drain_s: int
    planned_load_s: int
    weights_bytes: int
    kv_cache_tokens: int
    access: str
    asleep_usd_per_day: float | None = None
    replicas: int = 1
    topic_arn: str | None = None
    return_to_preferred: bool = False
    policy: str | None = None
    weights_copy_uri: str = ""
    volume_mib_per_s: int = 0
    volume_iops: int = 0
    volume_asleep_mib_per_s: int = 0

    @property
    def lanes(self) -> tuple[int, ...]:
        """The numbers of the lanes, from 0."""
        return tuple(sorted({slot.replica for slot in self.slots}))

    def lane(self, replica: int) -> "StackOutputs":
        """The same outputs with the slots of one lane alone; raises ConfigurationError where there is no such lane."""
        slots = tuple(slot for slot in self.slots if slot.replica == replica)
        if not slots:
            raise ConfigurationError(
                [Fault("replica", str(replica), ", ".join(str(known) for known in self.lanes))], "the stack's lanes"
            )
        return replace(self, slots=slots)

    def to_mapping(self) -> dict[str, Any]:
        """The plain camelCase mapping that is exported; `from_mapping` reads it back unchanged."""
        flat = {_camel(name): value for name, value in asdict(self).items() if name != "slots"}
        flat["slots"] = [{_camel(name): _plain(value) for name, value in asdict(slot).items()} for slot in self.slots]
        return flat

    def to_json(self) -> str:
        """The outputs file: indented, keys in a fixed order, with a last line feed."""
        return json.dumps(self.to_mapping(), indent=2) + "\n"

    @classmethod
    def exported_keys(cls) -> tuple[str, ...]:
        """The keys of `to_mapping`, in its order."""
        return (*(_camel(field.name) for field in fields(cls) if field.name != "slots"), "slots")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], where: str = "the stack's outputs") -> "StackOutputs":
        """Read what `to_mapping` wrote; unknown keys are ignored, so that an older tool reads a newer stack.

        Raises ConfigurationError naming every missing or mistyped key.
        """
        faults: list[Fault] = []
        raw_slots = mapping.get("slots")
        slots: list[Slot] = []
        if isinstance(raw_slots, Sequence) and not isinstance(raw_slots, str):
            for index, raw in enumerate(cast("Sequence[object]", raw_slots)):
                prefix = f"slots[{index}]"
                if isinstance(raw, Mapping):
                    values = _read(Slot, cast("Mapping[str, Any]", raw), prefix + ".", faults)
                    if values is not None:
                        slots.append(Slot(**values))
                else:
                    faults.append(Fault(prefix, repr(raw), "an object with name, purchase, zone, nodeGroupName, …"))
        elif "slots" in mapping:
            faults.append(Fault("slots", repr(raw_slots), "a list of slots"))
        values = _read(cls, mapping, "", faults, skip=("slots",))
        if "slots" not in mapping:
            faults.append(Fault("slots", "nothing", "a list of slots"))
        if faults or values is None:
            raise ConfigurationError(faults, where)
        return cls(slots=tuple(slots), **values)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(value: object) -> object:
    """A tuple as the list that JSON and Pulumi know."""
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


_PLAIN: dict[object, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    bool: (bool,),
    str | None: (str, type(None)),
    float | None: (float, int, type(None)),
    tuple[str, ...]: (tuple,),
}


def _read(
    cls: type, mapping: Mapping[str, Any], prefix: str, faults: list[Fault], skip: tuple[str, ...] = ()
) -> dict[str, Any] | None:
    """The constructor's arguments out of a camelCase mapping, or None where a fault was added."""
    values: dict[str, Any] = {}
    before = len(faults)
    for field in fields(cls):
        if field.name in skip:
            continue
        key = _camel(field.name)
        # What was added later has a default, so that older outputs are still read.
        optional = field.default is not MISSING
        value = mapping.get(key, field.default if optional else None)
        if field.type == tuple[str, ...] and isinstance(value, Sequence) and not isinstance(value, str):
            value = tuple(cast("Sequence[object]", value))
            if not all(isinstance(one, str) for one in value):
                value = list(value)
        # Pulumi's engine carries every number as a double, so whole floats are integers that went through state.
        if field.type is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if key not in mapping and not optional:
            faults.append(Fault(prefix + key, "nothing", f"a value of type {getattr(field.type, '__name__', 'text')}"))
        elif not isinstance(value, _PLAIN[field.type]) or (isinstance(value, bool) and field.type is not bool):
            kinds = ("list of text",) if field.type == tuple[str, ...] else (k.__name__ for k in _PLAIN[field.type])
            wanted = " or ".join(kinds)
            faults.append(Fault(prefix + key, repr(value), wanted))
        else:
            values[field.name] = value
    return values if len(faults) == before else None

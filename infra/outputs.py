"""What a stack exports and every job reads: one definition, written by the program, read from state or from a file.

Jobs know nothing else of a stack: not its configuration, not its code. The exported JSON is camelCase, as Pulumi
users expect, and holds no secret.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from serving.errors import ConfigurationError, Fault


@dataclass(frozen=True)
class Slot:
    """One capacity candidate: a node group pinned to a zone, and the Deployment that serves from that zone's volume.

    - `name`: unique in the stack and stable, such as `spot-use2-az3`.
    - `purchase`: `on-demand`, `spot` or `capacity-block`.
    - `zone`, `zone_id`: the zone's name in this account (`us-east-2a`) and its id everywhere (`use2-az1`).
    - `deployment_name`: the Deployment whose claim is bound to `volume_id`.
    - `patience_s`: how long a wake waits here for a node before it tries the next candidate.
    - `reservation_id`: the Capacity Block's reservation, or None.
    - `usd_per_hour`: what a node costs, or None where no price is known.
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


@dataclass(frozen=True)
class StackOutputs:
    """The exported outputs.

    - `environment`: the stack's name, such as `dev`.
    - `service_name`, `service_port`: the Service that callers reach inside the cluster.
    - `slots`: the capacity candidates in the order of preference.
    - `gpus_per_node`: GPUs that one replica takes.
    - `startup_window_s`: the longest start that the startup probe allows.
    - `drain_s`: how long vLLM goes on answering after SIGTERM.
    - `planned_load_s`: weights bytes ÷ volume throughput plus the compile allowance; an estimate.
    - `weights_bytes`, `kv_cache_tokens`: from the memory plan.
    - `asleep_usd_per_day`: what is still billed while asleep, or None where a price is unknown.
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

    def to_mapping(self) -> dict[str, Any]:
        """The plain camelCase mapping that is exported; `from_mapping` reads it back unchanged."""
        flat = {_camel(name): value for name, value in asdict(self).items() if name != "slots"}
        flat["slots"] = [{_camel(name): value for name, value in asdict(slot).items()} for slot in self.slots]
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


_PLAIN: dict[object, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    str | None: (str, type(None)),
    float | None: (float, int, type(None)),
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
        optional = type(None) in _PLAIN[field.type]
        value = mapping.get(key)
        # Pulumi's engine carries every number as a double, so whole floats are integers that went through state.
        if field.type is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if key not in mapping and not optional:
            faults.append(Fault(prefix + key, "nothing", f"a value of type {getattr(field.type, '__name__', 'text')}"))
        elif not isinstance(value, _PLAIN[field.type]) or isinstance(value, bool):
            wanted = " or ".join(kind.__name__ for kind in _PLAIN[field.type])
            faults.append(Fault(prefix + key, repr(value), wanted))
        else:
            values[field.name] = value
    return values if len(faults) == before else None

"""The parts of a Kubernetes manifest that matter to a model server, each with the path of its field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Object = Mapping[str, Any]
_WORKLOADS = {
    "Deployment": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
    "DaemonSet": "spec.template.spec",
    "ReplicaSet": "spec.template.spec",
    "Job": "spec.template.spec",
    "Pod": "spec",
}
_FACTORS = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """An object that makes pods: its kind and name, its own spec, the pods' spec, and that spec's path."""

    kind: str
    name: str
    spec: Object
    pod: Object
    path: str

    @property
    def containers(self) -> list[tuple[str, Object]]:
        """The containers with their paths."""
        return [(f"{self.path}.containers[{i}]", one) for i, one in enumerate(objects(self.pod, "containers"))]

    @property
    def engine(self) -> tuple[str, Object] | None:
        """The container that runs vLLM with its path, or None."""
        return next(((path, one) for path, one in self.containers if _is_engine(one)), None)

    @property
    def claims(self) -> list[str]:
        """The names of the claims that its pods mount."""
        return [
            str(claim["claimName"])
            for volume in objects(self.pod, "volumes")
            if (claim := child(volume, "persistentVolumeClaim")).get("claimName")
        ]


def workloads(documents: Sequence[Object]) -> Iterator[Workload]:
    """Everything in the documents that makes pods."""
    for document in documents:
        kind = str(document.get("kind", ""))
        if kind not in _WORKLOADS:
            continue
        spec = child(document, "spec")
        pod = spec if kind == "Pod" else child(child(spec, "template"), "spec")
        name = str(child(document, "metadata").get("name", ""))
        yield Workload(kind, name, spec, pod, f"{kind}/{name} {_WORKLOADS[kind]}")


def flatten(documents: Sequence[object]) -> list[Object]:
    """The objects in parsed documents, those inside a List too."""
    found: list[Object] = []
    for document in documents:
        if isinstance(document, Mapping):
            one = cast("Object", document)
            items = one.get("items")
            if str(one.get("kind", "")).endswith("List") and isinstance(items, list):
                found += flatten(cast("list[object]", items))
            else:
                found.append(one)
    return found


def child(parent: Object, name: str) -> Object:
    """An object inside another; empty where there is none."""
    value = parent.get(name)
    return cast("Object", value) if isinstance(value, Mapping) else {}


def objects(parent: Object, name: str) -> list[Object]:
    """A list of objects inside another; empty where there is none."""
    value = parent.get(name)
    if not isinstance(value, list):
        return []
    return [cast("Object", one) for one in cast("list[object]", value) if isinstance(one, Mapping)]


def texts(parent: Object, name: str) -> list[str]:
    """A list of texts inside an object."""
    value = parent.get(name)
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def number(parent: Object, name: str, default: int) -> int:
    """A whole number inside an object, or its default."""
    value = parent.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return default
    try:
        return int(value)
    except ValueError:
        return default


def quantity_bytes(text: object) -> int | None:
    """Bytes out of a Kubernetes quantity such as `400Gi`; None where it is none."""
    read = re.fullmatch(r"(\d+(?:\.\d+)?)(m|k|[MGTP]|[KMGTP]i)?", str(text))
    if read is None or read[2] == "m":
        return None
    return int(float(read[1]) * _FACTORS[read[2] or ""])


def serve_arguments(container: Object) -> list[str]:
    """What vLLM is given in a container, whether it stands in `command` or in `args`."""
    words = [*texts(container, "command"), *texts(container, "args")]
    if len(words) >= 2 and words[0].rsplit("/", 1)[-1] in ("sh", "bash"):
        line = re.sub(r"\\\s*\n", " ", words[-1])
        words = line.split()
    for index, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == "vllm" and words[index + 1 : index + 2] == ["serve"]:
            return words[index + 2 :]
        if word == "vllm.entrypoints.openai.api_server":
            return words[index + 1 :]
    return words


def _is_engine(container: Object) -> bool:
    words = " ".join([*texts(container, "command"), *texts(container, "args")])
    image = str(container.get("image", ""))
    return "vllm" in image.rsplit("/", 1)[-1] or "vllm serve" in words or "vllm.entrypoints" in words

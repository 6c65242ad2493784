"""What a pod gains when one replica takes several machines: peers, fabric, and one fate for all of them.

A replica over several machines lives and dies as one. vLLM cannot take a machine back in: when one ends, the others
wait for it. So each pod watches its peers' connections (`pair_probe`), and both start again together within two
minutes of one's end; nothing outside the two pods has to notice. A stop goes the other way round: a worker outlives
the first machine, which ends running answers before it goes.
"""

from pathlib import Path
from typing import Any

from serving.engine.arguments import MASTER_PORT
from serving.manifests import pair_probe
from serving.manifests.labels import EFA_RESOURCE, app_labels
from serving.manifests.place import Place
from serving.service_plan import ServicePlan

# EC2 machines with EFA set 5,128 pages of 2 MiB aside; pods ask for 5120Mi of them (EKS user guide, node-efa, 2026-08).
_HUGE_PAGES = "5120Mi"
_PERIOD_S = 10
_FAILURES = 12
_PROBED_GRACE_S = 60
_AFTER_LEADER_S = 60


def first_service(namespace: Any, instance: str, name: str, selector: dict[str, str]) -> dict[str, Any]:
    """The headless Service `name` by which workers find the first machine's pod, before it is Ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": app_labels(instance)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": "master", "port": MASTER_PORT, "targetPort": MASTER_PORT, "protocol": "TCP"}],
        },
    }


def first_service_name(deployment_name: str) -> str:
    """The name of the Service that leads to the pod of the Deployment `deployment_name`."""
    return f"{deployment_name}-first"


def joined(pod: dict[str, Any], plan: ServicePlan, place: Place) -> dict[str, Any]:
    """`pod` as one of several machines of its replica; a pod that is alone stays as it is."""
    layout = plan.memory.fit.layout
    if layout.nodes == 1:
        return pod
    engine = _on_fabric(pod["containers"][0], plan.memory.fit.shape.efa_cards)
    if place.rank == 0:
        engine["livenessProbe"] = _probe("leader", str(layout.nodes - 1))
        return {**pod, "containers": [engine]}
    for unused in ("ports", "readinessProbe"):
        del engine[unused]
    engine |= {
        "startupProbe": {**_probe("worker"), "failureThreshold": plan.startup_window_s // _PERIOD_S},
        "livenessProbe": _probe("worker"),
        "lifecycle": {"preStop": {"exec": {"command": _command("wait")}}},
    }
    return {
        **pod,
        "terminationGracePeriodSeconds": plan.grace_s + _AFTER_LEADER_S,
        # Nobody calls a worker: it has no gateway.
        "initContainers": [one for one in pod["initContainers"] if one["name"] != "gateway"],
        "containers": [engine],
        "volumes": [one for one in pod["volumes"] if not one["name"].startswith("gateway-")],
    }


def _on_fabric(engine: dict[str, Any], efa_cards: int) -> dict[str, Any]:
    # Each pod takes the whole machine, so it takes every adapter of it.
    devices = {EFA_RESOURCE: str(efa_cards), "hugepages-2Mi": _HUGE_PAGES} if efa_cards else {}
    resources = {kind: {**amounts, **devices} for kind, amounts in engine["resources"].items()}
    address = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return {**engine, "env": [address, *engine["env"]], "resources": resources}


def _probe(role: str, *more: str) -> dict[str, Any]:
    return {
        "exec": {"command": _command(role, *more)},
        "periodSeconds": _PERIOD_S,
        "timeoutSeconds": _PERIOD_S,
        "failureThreshold": _FAILURES,
        # A replica that has fallen apart answers nobody, so the long grace of a planned stop buys nothing.
        "terminationGracePeriodSeconds": _PROBED_GRACE_S,
    }


def _command(role: str, *more: str) -> list[str]:
    return ["python3", "-c", Path(pair_probe.__file__).read_text(encoding="utf-8"), role, str(MASTER_PORT), *more]

"""A Kubernetes API server with its controllers, scheduler and kubelets, simulated on this machine.

    with KubernetesServer(SystemClock(), nodes=lambda: nodes_from_cloud(...)) as cluster:
        print(cluster.url)

The API is answered over real HTTP; the schemas, the scheduler's rules and the words of refusals are Kubernetes's own.
Simulated are the nodes (whatever `nodes` lists), time (the clock's) and everything inside pods.
"""

import threading
from collections import deque
from types import TracebackType
from typing import Any, Self

from infra.clock import Clock
from infra.sandbox.kubernetes.access import Authenticate
from infra.sandbox.kubernetes.conditions import is_ready
from infra.sandbox.kubernetes.controllers.attachments import AttachmentController, VolumeCall
from infra.sandbox.kubernetes.controllers.jobs import JobController
from infra.sandbox.kubernetes.controllers.loop import ControlLoop
from infra.sandbox.kubernetes.controllers.nodes import NodeSource, NodeSync, OrphanedPods
from infra.sandbox.kubernetes.controllers.pod_lifecycle import LOAD_ANNOTATION, Durations, PodLifecycle
from infra.sandbox.kubernetes.controllers.scheduler import Scheduler
from infra.sandbox.kubernetes.controllers.services import EndpointsController
from infra.sandbox.kubernetes.controllers.volumes import VolumeBinder
from infra.sandbox.kubernetes.controllers.workloads import DaemonSetController, DeploymentController
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.events import EventRecorder
from infra.sandbox.kubernetes.http_server import HttpServer
from infra.sandbox.kubernetes.messages import Answer, Request
from infra.sandbox.kubernetes.pod_proxy import PodProxy
from infra.sandbox.kubernetes.refusals import bad_request
from infra.sandbox.kubernetes.resource_types import ENDPOINTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES
from infra.sandbox.kubernetes.routes import Routes
from infra.sandbox.kubernetes.simulated_requests import GENERATION_TOKENS, PROMPT_TOKENS, SimulatedRequests
from infra.sandbox.kubernetes.store import Store
from infra.sandbox.kubernetes.validation import SchemaAdmission
from infra.sandbox.kubernetes.weight_contents import VolumeOrigin, WeightContents

Object = dict[str, Any]

DEFAULT_VERSION = "1.36"
REQUESTS_PATH = "/simulation/requests"
"""POST {"namespace", "count", "seconds_each"} here to have requests simulated from another process."""

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class KubernetesServer:
    """The stand-in for one cluster's control plane; a context manager that serves while it is open.

    - `clock`: the cluster's time.
    - `nodes`: lists the Node objects that ought to be there; asked about four times a second, may fail. None: nodes
      are created through the API alone.
    - `authenticate`: a token's user name and groups, or None for an unknown token; None lets everybody do everything.
    - `attach`, `detach`: called with an EBS volume's id and a Node object when a pod needs the volume there, and
      when none does any more; an exception is reported as the pod's FailedAttachVolume event and tried again.
    - `version`: of Kubernetes, with a minor number, such as `1.36`.
    - `pod_url`: the address of a real server to put behind the pods, see PodProxy.
    - `concurrent_requests`: how many simulated requests a pod runs at once.
    - `volumes_full`: whether a volume that no Job has filled counts as holding proven weights.
    - `volume_origin`: the volume that a volume was copied from, whose weights it has then.
    - `port`: 0 lets the system choose.

    Raises ValueError for a version whose schemas are not at hand.
    """

    certificate_authority_data = ""
    """Empty: plain HTTP on 127.0.0.1 needs no certificate."""

    def __init__(
        self,
        clock: Clock,
        nodes: NodeSource | None = None,
        authenticate: Authenticate | None = None,
        attach: VolumeCall | None = None,
        detach: VolumeCall | None = None,
        *,
        durations: Durations | None = None,
        version: str = DEFAULT_VERSION,
        pod_url: str | None = None,
        concurrent_requests: int = 256,
        volumes_full: bool = True,
        volume_origin: VolumeOrigin | None = None,
        port: int = 0,
    ) -> None:
        """Bind the port; nothing is served before the `with` block."""
        durations = durations or Durations()
        now = clock.now
        self.faults: deque[str] = deque(maxlen=100)
        self.version = version
        self.store = Store(now, SchemaAdmission(version))
        self.contents = WeightContents(self.store, volumes_full, volume_origin)
        self._requests = SimulatedRequests(now, concurrent_requests)
        self._stopping = threading.Event()
        self._proxy = PodProxy(self.store, self._requests, pod_url)
        self._routes = Routes(self.store, self._proxy, version, now, self._stopping)
        self._http = HttpServer(self._answer, authenticate, self.faults.append, port)
        self._http_thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, name="kubernetes-http", daemon=True
        )
        events = EventRecorder(self.store, now)
        attachments = AttachmentController(self.store, now, events, attach, detach, durations.volume_attach_s)
        self._loop = ControlLoop(
            self.store,
            now,
            (
                VolumeBinder(self.store, now),
                DeploymentController(self.store, now),
                DaemonSetController(self.store),
                JobController(self.store, now),
                Scheduler(self.store, now, events),
                attachments,
                PodLifecycle(
                    self.store, now, events, attachments, self._requests, durations.image_pull_s, self.contents
                ),
                OrphanedPods(self.store, now, durations.orphaned_pod_s),
                EndpointsController(self.store),
            ),
            self.faults.append,
        )
        self._nodes = NodeSync(self.store, now, nodes, self.faults.append) if nodes else None
        for name in _NAMESPACES:
            self.store.create(NAMESPACES, "", {"metadata": {"name": name}}, checked=False)
            self.store.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}}, checked=False)

    @property
    def url(self) -> str:
        """The endpoint, such as `http://127.0.0.1:43017`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        """Start serving."""
        if self._nodes:
            self._nodes.sync()
            self._nodes.start()
        self._loop.start()
        self._http_thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving: watches end, connections close, threads are waited for."""
        self._stopping.set()
        with self.store.changed:
            self.store.changed.notify_all()
        self._http.close_all()
        self._http_thread.join(timeout=10)
        if self._nodes:
            self._nodes.stop()
        self._loop.stop()

    def put_behind_pods(self, pod_url: str | None) -> None:
        """Put a real server behind the pods' `/proxy/`, or take it away with None."""
        self._proxy.upstream = pod_url

    def simulate_requests(
        self,
        namespace: str,
        count: int,
        seconds_each: float,
        *,
        prompt_tokens: int = PROMPT_TOKENS,
        generation_tokens: int = GENERATION_TOKENS,
    ) -> int:
        """Have `count` requests arrive at once, each `seconds_each` simulated seconds long.

        They go, in turn, to the pods that the namespace's Services reach; where it has no Service, to the ready pods
        that load a model. Gives how many were taken: 0 where no pod takes any, as callers would be refused.
        """
        uids = self._serving(namespace)
        for index, uid in enumerate(uids):
            share = count // len(uids) + (index < count % len(uids))
            self._requests.add(uid, share, seconds_each, prompt_tokens, generation_tokens)
        return count if uids else 0

    def _serving(self, namespace: str) -> list[str]:
        services = [one for one in self.store.items(SERVICES, namespace) if one["spec"].get("selector")]
        if services:
            addresses = [
                address
                for endpoints in self.store.items(ENDPOINTS, namespace)
                for subset in children(endpoints, "subsets")
                for address in children(subset, "addresses")
            ]
            return sorted({address["targetRef"]["uid"] for address in addresses})
        return [
            pod["metadata"]["uid"]
            for pod in self.store.items(PODS, namespace)
            if is_ready(pod) and LOAD_ANNOTATION in child(pod["metadata"], "annotations")
        ]

    def _answer(self, request: Request) -> Answer:
        if request.path == REQUESTS_PATH and request.method == "POST":
            body = request.object_body()
            try:
                namespace, count = str(body["namespace"]), int(body["count"])
                seconds_each = float(body["seconds_each"])
            except (KeyError, TypeError, ValueError):
                words = "accepted: namespace (text), count (whole number), seconds_each (number)"
                raise bad_request(f"simulated requests: {words}") from None
            return Answer(200, {"simulated": True, "taken": self.simulate_requests(namespace, count, seconds_each)})
        return self._routes.answer(request)

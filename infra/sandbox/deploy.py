"""Runs a Pulumi program in this process against a simulated AWS and a Kubernetes API server.

This is not Pulumi's engine: there is no state, no diff and no preview, every resource is made anew, and policies such
as `protect` are recorded and not enforced. It shows that a program is accepted by the clouds it talks to, in two
seconds and without Pulumi's CLI. What `pulumi up` does is shown by the tests that run Pulumi's real engine over the
same table of resources (`infra.sandbox.pulumi_provider`).
"""

import asyncio
import contextvars
import logging
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime import mocks as pulumi_mocks
from pulumi.runtime import settings as pulumi_settings
from pulumi.runtime.stack import run_in_stack

from infra.clock import Clock
from infra.sandbox.aws_resources import AwsClients
from infra.sandbox.deploy_monitor import DeployMonitor, ResourceFailedError
from infra.sandbox.deployment import DeployedResource, Deployment, ResourceEvent
from infra.sandbox.kubernetes_objects import KubernetesObjects
from serving.errors import DormouseError

__all__ = ["DeployedResource", "Deployment", "DeploymentError", "ResourceEvent", "ResourceFailedError", "deploy"]

_DEFAULT_REGION = "us-east-2"
_PARALLEL = 16


class DeploymentError(DormouseError):
    """The program itself failed, before or between its resources."""


class _Diagnostics(logging.Handler):
    """Keeps what the program logs through `pulumi.log`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


def deploy(
    program: Callable[[], None],
    config: Mapping[str, str],
    *,
    secret_keys: Collection[str] = (),
    aws_endpoint_url: str,
    kubernetes_url: str | None = None,
    kubernetes_token: str | None = None,
    kubernetes_ca_file: str | None = None,
    project: str = "dormouse",
    stack: str = "dev",
    on_resource: Callable[[ResourceEvent], None] | None = None,
    clock: Clock | None = None,
) -> Deployment:
    """Run `program` and make every resource it declares, each as soon as its inputs are known.

    - `config`: the stack's configuration by full key, such as `{"aws:region": "us-east-2"}`; `secret_keys`: which of
      its keys are secret.
    - `aws_endpoint_url`: a simulated AWS on this machine.
    - `kubernetes_url`: the API server that `kubernetes:*` resources are applied to, whatever kubeconfig the program's
      own provider has. Without one they are recorded only. Nothing waits for them to become ready.
    - `on_resource`: called in worker threads, one call at a time, when a resource is started, made or refused.
    - `clock`: the simulated AWS's clock.

    Raises ResourceFailedError with AWS's or the API server's own text and the resource's name, the DormouseErrors
    that the program raises, and DeploymentError for anything else that goes wrong in it.
    """
    if config.get("aws:endpoints"):
        raise DeploymentError("aws:endpoints can't be set here; accepted: the argument aws_endpoint_url")
    region = config.get("aws:region", os.environ.get("AWS_REGION", _DEFAULT_REGION))
    monitor = DeployMonitor(
        project=project,
        stack=stack,
        clients=lambda name: AwsClients(name or region, aws_endpoint_url, clock=clock),
        default_tags=config.get("aws:defaultTags"),
        kubernetes=KubernetesObjects(kubernetes_url, kubernetes_token, kubernetes_ca_file) if kubernetes_url else None,
        on_resource=on_resource or (lambda _event: None),
    )
    # Pulumi's runtime keeps the running program in context variables, so a copied context leaves the caller's alone.
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="pulumi-program") as one:
        return one.submit(context.run, _run, program, dict(config), list(secret_keys), monitor).result()


def _run(
    program: Callable[[], None], config: dict[str, str], secret_keys: list[str], monitor: DeployMonitor
) -> Deployment:
    diagnostics = _Diagnostics()
    # One of its own, outside the tree of loggers, so that two runs never hear each other.
    logger = logging.Logger(  # noqa: LOG001
        f"pulumi.{monitor.project}.{monitor.stack}"
    )
    logger.addHandler(diagnostics)
    pulumi_settings.ROOT.set(None)
    pulumi_settings.configure(
        pulumi_mocks.MockSettings(
            monitor=monitor,
            monitor_features=set(monitor.GetDeploymentInfo(empty_pb2.Empty()).supportedFeatures),
            engine=pulumi_mocks.MockEngine(logger),
            project=monitor.project,
            stack=monitor.stack,
            root_directory=str(Path.cwd()),
            organization="organization",
            dry_run=False,
            callbacks=None,
        )
    )
    pulumi.runtime.set_all_config(config, secret_keys)
    loop = asyncio.new_event_loop()
    # A resource that fails leaves tasks behind that nobody awaits; their news would be thousands of lines.
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.set_default_executor(ThreadPoolExecutor(_PARALLEL, thread_name_prefix="pulumi-resource"))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run_in_stack(program))
    except Exception as error:
        if monitor.failure is not None:
            raise monitor.failure from None
        if isinstance(error, DormouseError):
            raise
        if isinstance(error, pulumi.RunError):
            # A program's own way to end with a message.
            raise DeploymentError(str(error)) from None
        raise DeploymentError(f"the program failed: {type(error).__name__}: {error}") from error
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
        pulumi_settings.ROOT.set(None)
    return monitor.deployment(tuple(diagnostics.lines))

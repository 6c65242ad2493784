"""What a run of a program made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.errors import UnknownFactError


@dataclass(frozen=True)
class DeployedResource:
    """One resource, in the order of completion.

    - `parent`, `depends_on`: URNs; `parent` is None for the top level.
    - `id`: what AWS or Kubernetes calls it; None for components.
    - `inputs`, `outputs`: by Pulumi's names, with secrets masked; `secret_properties` names those.
    - `protect`, `retain_on_delete`, `ignore_changes`, `delete_before_replace`: the options given, recorded only.
    - `started_s`, `took_s`: real seconds since the run began, and how long it took.
    """

    urn: str
    type: str
    name: str
    parent: str | None
    custom: bool
    id: str | None
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    secret_properties: frozenset[str]
    depends_on: tuple[str, ...]
    provider: str | None
    protect: bool
    retain_on_delete: bool
    ignore_changes: tuple[str, ...]
    delete_before_replace: bool
    started_s: float
    took_s: float


@dataclass(frozen=True)
class ResourceEvent:
    """News of one resource.

    - `kind`: `creating`, `created` or `failed`.
    - `took_s`: real seconds since it began; 0 at the beginning.
    - `error`: what was refused, for `failed`.
    """

    kind: str
    urn: str
    type: str
    name: str
    took_s: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Deployment:
    """A finished run.

    - `outputs`: what the program exported, as plain JSON values with secrets masked.
    - `secret_outputs`: names of the exported secrets.
    - `resources`: in the order of completion, components after their children.
    - `diagnostics`: what the program logged through `pulumi.log`.
    """

    outputs: Mapping[str, Any]
    secret_outputs: frozenset[str]
    resources: tuple[DeployedResource, ...]
    diagnostics: tuple[str, ...] = ()

    def resource(self, token: str, name: str) -> DeployedResource:
        """The resource of a type token and a name.

        Raises UnknownFactError listing the names of that type.
        """
        of_type = [one for one in self.resources if one.type == token]
        for one in of_type:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in of_type) or "none"
        raise UnknownFactError(f"the deployment has no {token} named {name}; there are: {names}")

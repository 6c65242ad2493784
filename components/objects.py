"""From a Kubernetes object as a plain dictionary to the Pulumi resource of its kind."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pulumi


class KubernetesObject(pulumi.CustomResource):
    """One object of the API server, registered under the type token of its own API version and kind.

    A `kubernetes:apps/v1:Deployment` made so is the same resource to Pulumi as one made by the typed class, and what
    the tests validate is, field for field, what is sent. The typed classes would also cost a second of import time.
    """

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Register `manifest`, an object with apiVersion, kind and metadata; leaves may be Outputs."""
        group_version = manifest["apiVersion"]
        if "/" not in group_version:
            group_version = f"core/{group_version}"
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(version=version("pulumi-kubernetes")))
        super().__init__(f"kubernetes:{group_version}:{manifest['kind']}", name, dict(manifest), opts)

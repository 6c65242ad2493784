"""The pod's credentials: EKS Pod Identity's agent, or plain keys in the environment."""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any, cast

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.s3.signing import Credentials
from components.programs.hydrator.transport import Transport

_RENEW_BEFORE_S = 600.0


class CredentialSource:
    """Gives credentials that are good for some minutes; used by several threads."""

    def __init__(self, transport: Transport) -> None:
        """Ask nothing yet."""
        self._transport = transport
        self._held: Credentials | None = None
        self._lock = Lock()

    def current(self) -> Credentials:
        """Credentials; raises HydrateError where there are none."""
        with self._lock:
            held = self._held
            if held is None or (held.expires_at_s is not None and held.expires_at_s - time.time() < _RENEW_BEFORE_S):
                self._held = held = self._fresh()
            return held

    def _fresh(self) -> Credentials:
        environment = os.environ
        if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
            token = environment.get("AWS_SESSION_TOKEN", "")
            return Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], token)
        url = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            raise HydrateError(
                "no AWS credentials in this pod. EKS Pod Identity sets AWS_CONTAINER_CREDENTIALS_FULL_URI: the service "
                "account needs its association (`pulumi up` makes it), and the add-on eks-pod-identity-agent must run"
            )
        token_file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = (
            Path(token_file).read_text(encoding="ascii").strip()  # read anew each time: the kubelet renews it
            if token_file
            else environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        )
        headers = {"Authorization": token} if token else {}
        answer, text = self._transport.text(url, headers, "the pod's AWS credentials")
        if answer.status != 200:
            raise HydrateError(
                f"the Pod Identity agent refuses credentials ({answer.status}): is the service account associated with "
                "a role whose trust lets pods.eks.amazonaws.com assume it?"
            )
        document = cast("dict[str, Any]", json.loads(text))
        expires = document.get("Expiration")
        return Credentials(
            document["AccessKeyId"],
            document["SecretAccessKey"],
            document.get("Token") or "",
            datetime.fromisoformat(str(expires)).timestamp() if expires else None,
        )

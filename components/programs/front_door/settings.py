"""What the front door is told by its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class SettingsError(ValueError):
    """The environment is not what the manifest sets; the text names every fault."""


@dataclass(frozen=True)
class DoorSettings:
    """The settings of one front door.

    - `port`: where callers come in, the same as the gateway's; `ready_port`: for Kubernetes' own probes.
    - `key_path`: the file with the callers' API key, mounted from its Secret.
    - `model`: the served model's name.
    - `planned_wake_s`: estimate of a whole wake, told while nobody knows better.
    - `hold_s`: how long a request may be held until the model serves; 0 answers at once.
    - `upstream_host`, `upstream_port`: the Service that reaches the model's pods alone.
    - `api_url`, `token_path`, `authority_path`: the Kubernetes API as a pod sees it.
    - `namespace`, `notice_name`: the ConfigMap on which wakes are asked for.
    """

    port: int
    ready_port: int
    key_path: Path
    model: str
    planned_wake_s: int
    hold_s: int
    upstream_host: str
    upstream_port: int
    api_url: str
    token_path: Path
    authority_path: Path
    namespace: str
    notice_name: str


def read_settings(environment: Mapping[str, str]) -> DoorSettings:
    """The settings out of the environment; raises SettingsError naming every variable that is missing or wrong."""
    faults: list[str] = []

    def text(name: str, default: str | None = None) -> str:
        value = environment.get(name, default)
        if not value:
            faults.append(f"{name}: got nothing; accepted: a text")
        return value or ""

    def number(name: str, default: int, least: int, most: int) -> int:
        value = environment.get(name, str(default))
        if not value.isdecimal() or not least <= int(value) <= most:
            faults.append(f"{name}: got {value!r}; accepted: a whole number from {least} to {most}")
            return default
        return int(value)

    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    api_url = (
        environment.get("DOOR_API_URL")
        or f"https://{_bracketed(host)}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"
    )
    if not host and not environment.get("DOOR_API_URL"):
        faults.append("KUBERNETES_SERVICE_HOST: got nothing; accepted: what Kubernetes sets in every pod")
    settings = DoorSettings(
        port=number("DOOR_PORT", 8080, 1, 65535),
        ready_port=number("DOOR_READY_PORT", 8081, 1, 65535),
        key_path=Path(text("DOOR_KEY_FILE", "/etc/door/api-key")),
        model=text("DOOR_MODEL"),
        planned_wake_s=number("DOOR_PLANNED_WAKE_S", 1200, 1, 86_400),
        hold_s=number("DOOR_HOLD_S", 0, 0, 7200),
        upstream_host=text("DOOR_UPSTREAM_HOST", "127.0.0.1"),
        upstream_port=number("DOOR_UPSTREAM_PORT", 80, 1, 65535),
        api_url=api_url,
        token_path=Path(text("DOOR_TOKEN_FILE", f"{_ACCOUNT}/token")),
        authority_path=Path(text("DOOR_CA_FILE", f"{_ACCOUNT}/ca.crt")),
        namespace=text("DOOR_NAMESPACE"),
        notice_name=text("DOOR_NOTICE"),
    )
    if faults:
        raise SettingsError("; ".join(faults))
    return settings


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

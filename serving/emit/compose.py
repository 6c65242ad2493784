"""A compose file: vLLM and its gateway as containers that share one network, as a pod's do."""

import json
from typing import Any

from serving.emit.server import EmittedFile, OneServer
from serving.engine.arguments import CACHE_PATH, ENGINE_PORT, WEIGHTS_PATH
from serving.manifests.gateway import CONFIG_FILE, GATEWAY_PORT, gateway_config
from serving.runtime import pinned_runtime
from serving.units import GIB
from serving.weights.marker import ExpectedWeights, check_command

KEY_FILE = "vllm.key.env"
_HEALTH = "import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=5)"  # the image has no curl for sure
_FENCED: dict[str, Any] = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "read_only": True}


def compose_document(server: OneServer) -> dict[str, Any]:
    """The compose file as a plain mapping, in the form of the Compose Specification."""
    runtime, plan, machine = pinned_runtime(), server.plan, server.machine
    user = f"{runtime.vllm_user_id}:{runtime.vllm_user_id}"
    weights = f"{machine.weights_path}:{WEIGHTS_PATH}:ro"
    folder = f"{WEIGHTS_PATH}/{server.model.name}"
    check = check_command(ExpectedWeights(folder, beside=server.encodings))
    return {
        "name": "dormouse",
        "services": {
            "weights-check": {
                "image": runtime.vllm_image,
                "user": user,
                # A compose file reads $ as a variable of its own.
                "entrypoint": [check[0], check[1], check[2].replace("$", "$$"), *check[3:]],
                "environment": {"DORMOUSE_TERMINATION_LOG": "/dev/null"},
                "volumes": [weights],
                "network_mode": "none",
                "restart": "no",
                **_FENCED,
            },
            "vllm": {
                "image": runtime.vllm_image,
                "user": user,
                "entrypoint": ["vllm", "serve"],
                "command": [one.replace("$", "$$") for one in server.arguments(WEIGHTS_PATH, "0.0.0.0")],
                "environment": server.environment(WEIGHTS_PATH, CACHE_PATH),
                "env_file": [KEY_FILE],
                "volumes": [weights, f"{machine.cache_path}:{CACHE_PATH}"],
                "tmpfs": ["/tmp"],  # noqa: S108 - a folder inside the container
                # The gateway lives in this network; vLLM's own port is for this machine's Prometheus alone.
                "ports": [f"{machine.listen}:{machine.port}:{GATEWAY_PORT}", f"127.0.0.1:{ENGINE_PORT}:{ENGINE_PORT}"],
                "depends_on": {"weights-check": {"condition": "service_completed_successfully"}},
                "shm_size": f"{plan.shared_memory_bytes // GIB}gb",
                "mem_limit": f"{plan.pod_memory_bytes // GIB}gb",
                "ulimits": {"memlock": -1, "nofile": {"soft": 1048576, "hard": 1048576}, "core": 0},
                # Of the settings that help, only those of its own network can be given to a container.
                "sysctls": {"net.core.somaxconn": 4096},
                "stop_signal": "SIGTERM",
                "stop_grace_period": f"{plan.grace_s}s",
                "healthcheck": {
                    "test": ["CMD", "python3", "-c", _HEALTH.format(port=ENGINE_PORT)],
                    "interval": "10s",
                    "timeout": "10s",
                    "retries": 12,
                    "start_period": f"{plan.startup_window_s}s",
                },
                "deploy": {
                    # A start reads all weights: three that fail need a person.
                    "restart_policy": {"condition": "on-failure", "delay": "30s", "max_attempts": 3},
                    "resources": {
                        "reservations": {
                            "devices": [{"driver": "nvidia", "count": server.shape.gpus, "capabilities": ["gpu"]}]
                        }
                    },
                },
                **_FENCED,
            },
            "gateway": {
                "image": runtime.gateway_image,
                "user": str(runtime.gateway_user_id),
                "command": ["nginx", "-g", "daemon off;", "-c", f"/etc/gateway/{CONFIG_FILE}"],
                "network_mode": "service:vllm",
                "depends_on": {"vllm": {"condition": "service_started"}},
                "volumes": [f"./{CONFIG_FILE}:/etc/gateway/{CONFIG_FILE}:ro"],
                "tmpfs": ["/tmp"],  # noqa: S108 - a folder inside the container
                "stop_signal": "SIGQUIT",
                "stop_grace_period": f"{plan.grace_s}s",
                "restart": "unless-stopped",
                **_FENCED,
            },
        },
    }


def compose_files(server: OneServer) -> list[EmittedFile]:
    """compose.yaml (in JSON's subset of YAML, which needs no quoting rules) and the gateway's configuration."""
    text = f"# {server.headline()}\n" + json.dumps(compose_document(server), indent=2) + "\n"
    return [EmittedFile("compose.yaml", text), EmittedFile(CONFIG_FILE, gateway_config())]


def compose_steps(server: OneServer) -> list[str]:
    """What is to be done on the machine, in order."""
    machine = server.machine
    user = pinned_runtime().vllm_user_id
    return [
        "Needs Docker with the NVIDIA container toolkit (`nvidia-ctk runtime configure --runtime=docker`).",
        f"install -d -o {user} -g {user} {machine.cache_path}",
        f"Key: (umask 077; printf 'VLLM_API_KEY=%s\\n' \"$(openssl rand -hex 24)\" > {KEY_FILE})",
        f"docker compose up -d --wait --wait-timeout {server.plan.startup_window_s}",
        f"Callers reach http://{machine.listen}:{machine.port}/v1; metrics are at http://127.0.0.1:{ENGINE_PORT}/metrics.",
    ]

"""The pod's gateway: nginx in front of vLLM that lets `/v1/*` and `/health` through and nothing else.

vLLM's API key guards only some paths: `/invocations` answers chat completions without a key, and `/metrics`,
`/tokenize` and the documentation are open too (vLLM 0.32). So no caller ever reaches vLLM's own port.
"""

from typing import Any

from serving.engine_args import ENGINE_PORT
from serving.runtime import pinned_runtime

GATEWAY_PORT = 8080
CONFIG_FILE = "nginx.conf"

# Longest silence in a streamed answer; prompts of 262,144 tokens take minutes before the first token.
_SILENCE_S = 3600
_REFUSED = (
    '{"error":{"message":"only /v1/* and /health are served here","type":"NotFoundError","param":null,"code":404}}'
)


def gateway_config() -> str:
    """The nginx configuration: path allow-list, no buffering of streams, no version in answers."""
    return f"""\
pid /tmp/nginx.pid;
error_log /dev/stderr warn;
worker_processes 2;
events {{ worker_connections 4096; }}
http {{
  server_tokens off;
  access_log off;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  client_max_body_size 256m;
  keepalive_timeout 620s;
  upstream engine {{
    server 127.0.0.1:{ENGINE_PORT};
    keepalive 64;
  }}
  server {{
    listen {GATEWAY_PORT};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_buffering off;
    proxy_request_buffering off;
    proxy_connect_timeout 5s;
    proxy_read_timeout {_SILENCE_S}s;
    proxy_send_timeout {_SILENCE_S}s;
    # A retry of a request that generates tokens would pay for it twice.
    proxy_next_upstream off;
    location ~ ^/v1/ {{ proxy_pass http://engine; }}
    location = /health {{ proxy_pass http://engine; }}
    location / {{
      default_type application/json;
      return 404 '{_REFUSED}';
    }}
  }}
}}
"""


def gateway_container() -> dict[str, Any]:
    """The native sidecar: it starts before vLLM and ends after it, so that a draining stream keeps its way out."""
    runtime = pinned_runtime()
    return {
        "name": "gateway",
        "image": runtime.gateway_image,
        "restartPolicy": "Always",
        "command": ["nginx", "-g", "daemon off;", "-c", f"/etc/gateway/{CONFIG_FILE}"],
        "ports": [{"name": "http", "containerPort": GATEWAY_PORT}],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": runtime.gateway_user_id,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "gateway-config", "mountPath": "/etc/gateway", "readOnly": True},
            {"name": "gateway-scratch", "mountPath": "/tmp"},
        ],
    }

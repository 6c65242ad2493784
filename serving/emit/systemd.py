"""systemd units: vLLM as a hardened service, and the gateway in front of it."""

from serving.emit.server import UNIT, EmittedFile, OneServer
from serving.emit.weights import CHECK_FILE, check_file, fill_file
from serving.engine.arguments import ENGINE_PORT
from serving.manifests.gateway import GATEWAY_PORT, gateway_config
from serving.runtime import pinned_runtime
from serving.units import GIB

ENVIRONMENT_FILE = "/etc/dormouse/vllm.env"
KEY_FILE = "/etc/dormouse/vllm.key.env"
GATEWAY_FILE = "/etc/dormouse/gateway.conf"
SYSCTL_FILE = "/etc/sysctl.d/90-dormouse.conf"
GATEWAY_UNIT = "dormouse-gateway"

# Host settings; a pod cannot set the first two, because the kernel has them once for the whole machine.
SYSCTLS = (
    ("kernel.numa_balancing", "0", "moving pages between sockets stalls the processes that feed GPUs"),
    ("vm.swappiness", "1", "the page cache of the weights must not push the engine out of memory"),
    ("net.core.somaxconn", "4096", "bursts of callers wait in the accept queue instead of being refused"),
)
# What costs nothing and leaves the GPUs reachable. Not here: MemoryDenyWriteExecute (kernels are compiled while it
# runs), PrivateDevices and DevicePolicy (the driver numbers its devices at load).
_HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
UMask=0027
"""
_AFTER_DRAIN_S = 60


def systemd_files(server: OneServer) -> list[EmittedFile]:
    """Every file of the service, with its place on the machine; the key's own file is the user's to write."""
    machine = server.machine
    environment = server.environment(machine.weights_path, machine.cache_path)
    return [
        EmittedFile(f"/etc/systemd/system/{UNIT}.service", unit(server)),
        EmittedFile(f"/etc/systemd/system/{GATEWAY_UNIT}.service", gateway_unit(server)),
        EmittedFile(ENVIRONMENT_FILE, "".join(f"{name}={value}\n" for name, value in environment.items())),
        EmittedFile(GATEWAY_FILE, _gateway(server)),
        EmittedFile(SYSCTL_FILE, "".join(f"# {why}\n{name} = {value}\n" for name, value, why in SYSCTLS)),
        EmittedFile(
            "/etc/sysusers.d/dormouse.conf",
            f'u vllm {pinned_runtime().vllm_user_id} "vLLM" /var/lib/dormouse /usr/sbin/nologin\n',
        ),
        check_file(server),
        fill_file(server),
    ]


def unit(server: OneServer) -> str:
    """The unit of vLLM. `systemctl start` ends when the server answers, and `stop` when its last answer is finished."""
    machine, plan = server.machine, server.plan
    fabric = " nvidia-fabricmanager.service" if server.joins_gpus else ""
    arguments = " \\\n    ".join(
        _quoted(one) for one in server.arguments(machine.weights_path, "127.0.0.1", machine.weights_path)
    )
    return f"""\
# {server.headline()}
[Unit]
Description=vLLM: {server.model.title}
# After the gateway, so that at a shutdown the gateway goes last and running answers keep their way out.
After=network-online.target nvidia-persistenced.service{fabric} {GATEWAY_UNIT}.service
Wants=network-online.target nvidia-persistenced.service{fabric} {GATEWAY_UNIT}.service
RequiresMountsFor={machine.weights_path}
# A start reads all weights: three that fail within a day need a person.
StartLimitIntervalSec=1d
StartLimitBurst=3

[Service]
Type=exec
User=vllm
Group=vllm
EnvironmentFile={ENVIRONMENT_FILE}
# VLLM_API_KEY=…, owned by root with mode 0600; systemd reads it, the user vllm cannot.
EnvironmentFile={KEY_FILE}
StateDirectory=dormouse
WorkingDirectory=/var/lib/dormouse
ExecStartPre={CHECK_FILE}
ExecStart={machine.vllm_command} serve \\
    {arguments}
# The port opens only after the weights are read, which the plan gives {plan.startup_window_s} s.
ExecStartPost=/bin/sh -c 'until curl -fs -o /dev/null http://127.0.0.1:{ENGINE_PORT}/health; do sleep 5; done'
TimeoutStartSec={plan.startup_window_s}
# vLLM finishes running answers for {plan.drain_s} s after SIGTERM. Its workers must live on meanwhile, so only the main
# process is told.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec={plan.drain_s + _AFTER_DRAIN_S}
Restart=on-failure
RestartSec=30
OOMPolicy=stop
OOMScoreAdjust=-500
MemoryMax={plan.pod_memory_bytes // GIB}G
TasksMax=infinity
LimitNOFILE=1048576
LimitMEMLOCK=infinity
LimitCORE=0
ReadOnlyPaths={machine.weights_path}
ReadWritePaths={machine.cache_path}
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
{_HARDENING}
[Install]
WantedBy=multi-user.target
"""


def gateway_unit(server: OneServer) -> str:
    """The gateway's unit: nginx as a user that exists only while it runs."""
    return f"""\
# Lets /v1/ and /health through to vLLM and nothing else; {server.machine.listen}:{server.machine.port}
[Unit]
Description=Gateway in front of vLLM
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
DynamicUser=yes
ExecStart=/usr/sbin/nginx -g "daemon off;" -c {GATEWAY_FILE}
Restart=always
RestartSec=2
# Streams that run when it is stopped are finished first, as vLLM finishes them.
KillSignal=SIGQUIT
TimeoutStopSec={server.plan.drain_s + _AFTER_DRAIN_S}
LimitNOFILE=65536
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
PrivateDevices=yes
MemoryDenyWriteExecute=yes
{_HARDENING}
[Install]
WantedBy=multi-user.target
"""


def systemd_steps(server: OneServer) -> list[str]:
    """What is to be done on the machine, in order."""
    machine = server.machine
    return [
        "Put each file where its path says; then: systemd-sysusers && sysctl --system",
        f"install -d -o vllm -g vllm {machine.cache_path}",
        f"Install vLLM {pinned_runtime().vllm_version} so that {machine.vllm_command} exists, and nginx.",
        f"Key: (umask 077; printf 'VLLM_API_KEY=%s\\n' \"$(openssl rand -hex 24)\" > {KEY_FILE})",
        f"systemctl daemon-reload && systemctl enable --now {UNIT} {GATEWAY_UNIT}",
        f"Callers reach http://{machine.listen}:{machine.port}/v1; metrics are at http://127.0.0.1:{ENGINE_PORT}/metrics.",
    ]


def _gateway(server: OneServer) -> str:
    address = f"listen {server.machine.listen}:{server.machine.port};"
    return gateway_config().replace(f"listen {GATEWAY_PORT};", address)


def _quoted(word: str) -> str:
    """A word as systemd reads it: % and $ doubled, and quotes where it holds more than plain characters."""
    text = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return f'"{text}"' if any(one in word for one in " \"'{}\\;") else text

"""What `dormouse emit` writes is what systemd, Compose, Kubernetes, nginx and a shell accept, and says what the plan says."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
from compose_spec import PyCompose

from infra.emit import emit, server_from_file, server_from_question
from serving.emit.kubernetes import kubernetes_objects
from serving.emit.server import Machine, OneServer
from serving.engine.arguments import engine_arguments

ROOT = Path(__file__).parents[3]
NGINX = shutil.which("nginx")


def kimi() -> OneServer:
    return server_from_question("kimi-k2.5", "8xH200", Machine())


def texts(kind: str, server: OneServer | None = None) -> dict[str, str]:
    return {Path(file.path).name: file.text for file in emit(kind, server or kimi()).files}


def write(kind: str, folder: Path, server: OneServer | None = None) -> None:
    for file in emit(kind, server or kimi()).files:
        path = folder / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
        path.chmod(file.mode)


def executable(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_itself_finds_nothing_to_say(tmp_path: Path) -> None:
    write("systemd", tmp_path)
    for name in ("opt/vllm/bin/vllm", "usr/sbin/nginx", "bin/sh"):
        executable(tmp_path / name)
    units = tmp_path / "etc/systemd/system"
    for name in ("sysinit", "basic", "shutdown", "multi-user", "network-online", "initrd-switch-root"):
        (units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\n")
    names = ["dormouse-vllm.service", "dormouse-gateway.service"]
    command = ["systemd-analyze", "verify", f"--root={tmp_path}", "--man=no", *(str(units / name) for name in names)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    # … and it does look: a misspelt setting is named.
    (units / names[0]).write_text((units / names[0]).read_text().replace("KillMode=mixed", "KilMode=mixed"))
    assert "KilMode" in subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_the_unit_drains_before_it_is_killed_and_waits_for_the_whole_start() -> None:
    server = kimi()
    unit = texts("systemd")["dormouse-vllm.service"]
    assert "--shutdown-timeout=600" in unit
    assert "TimeoutStopSec=660\n" in unit
    assert f"TimeoutStartSec={server.plan.startup_window_s}\n" in unit
    assert "KillMode=mixed\n" in unit
    assert "User=vllm\n" in unit
    assert "NoNewPrivileges=yes\n" in unit
    assert "ExecStartPre=/usr/local/lib/dormouse/weights-check.sh\n" in unit
    # vLLM's own port is closed to others: its key guards only some paths.
    assert "--host=127.0.0.1" in unit
    assert '"--override-generation-config={\\"temperature\\":1.0,\\"top_p\\":0.95}"' in unit
    assert "nvidia-fabricmanager.service" in unit
    alone = texts("systemd", server_from_question("qwen3-32b", "1xH100", Machine(), context=8192))
    assert "nvidia-fabricmanager" not in alone["dormouse-vllm.service"]


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_takes_the_gateway_on_the_address_that_was_asked_for(tmp_path: Path) -> None:
    server = server_from_question("kimi-k2.5", "8xH200", Machine(listen="127.0.0.1", port=18931))
    path = tmp_path / "gateway.conf"
    path.write_text(texts("systemd", server)["gateway.conf"])
    assert "listen 127.0.0.1:18931;" in path.read_text()
    checked = subprocess.run([str(NGINX), "-t", "-c", str(path)], capture_output=True, text=True, check=False)
    assert "syntax is ok" in checked.stderr


def test_compose_knows_every_field_and_publishes_the_gateway_alone() -> None:
    text = texts("compose")["compose.yaml"]
    made = PyCompose.from_yaml(text)
    assert sorted(made.service_names()) == ["gateway", "vllm", "weights-check"]
    document = json.loads(text.split("\n", 1)[1])
    vllm = document["services"]["vllm"]
    assert vllm["ports"] == ["127.0.0.1:8080:8080", "127.0.0.1:8000:8000"]
    assert vllm["stop_grace_period"] == "680s"
    assert vllm["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 8
    assert vllm["shm_size"] == "32gb"
    assert document["services"]["gateway"]["network_mode"] == "service:vllm"
    check = document["services"]["weights-check"]["entrypoint"]
    assert "$$folder/.dormouse/verified.json" in check[2]
    assert re.search(r"(?<!\$)\$(?!\$)", check[2].replace("$$", "")) is None
    with pytest.raises(ValueError, match="bogus"):
        PyCompose.from_yaml(text.replace('"shm_size"', '"bogus"'))


@pytest.mark.parametrize("version", ["1.35", "1.36"])
def test_kubernetes_knows_every_field_of_the_plain_manifests(version: str) -> None:
    objects = kubernetes_objects(kimi(), "serve")
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)
    kinds = [one["kind"] for one in objects]
    assert kinds[-1] == "Deployment"
    assert "Secret" not in kinds
    assert objects[-1]["spec"]["replicas"] == 1


def test_no_file_holds_a_key_and_every_way_says_where_it_goes() -> None:
    for kind in ("systemd", "compose", "k8s", "command"):
        made = emit(kind, kimi())
        assert any("openssl rand -hex 24" in step for step in made.steps), kind
        for file in made.files:
            assert "--api-key=" not in file.text
            assert re.search(r"VLLM_API_KEY=[0-9a-f]", file.text) is None


def test_the_command_starts_vllm_with_the_key_in_its_environment_alone(tmp_path: Path) -> None:
    vllm = tmp_path / "vllm"
    executable(vllm, '#!/bin/sh\nprintf "%s\\n" "$@"\nprintf "key %s\\n" "$VLLM_API_KEY"\n')
    server = server_from_question("kimi-k2.5", "8xH200", Machine(vllm_command=str(vllm)))
    script = texts("command", server)["vllm.sh"]
    key = tmp_path / "vllm.key"
    key.write_text("a-key-of-the-test\n")
    said = subprocess.run(
        ["sh", "-c", script.replace("/etc/dormouse/vllm.key", str(key))], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[:2] == ["serve", "/srv/models/kimi-k2.5"]
    assert '--override-generation-config={"temperature":1.0,"top_p":0.95}' in said
    assert said[-1] == "key a-key-of-the-test"
    assert not any("a-key-of-the-test" in line for line in said[:-1])


def test_a_stack_file_gives_the_arguments_that_its_pods_get() -> None:
    server = server_from_file(ROOT / "Pulumi.dev.yaml", Machine())
    pod = engine_arguments(server.model, server.plan)
    here = server.arguments("/models", "0.0.0.0")
    assert here == pod
    assert server.shape.name == "p5en.48xlarge"


def test_weights_that_are_not_proven_stop_the_start(tmp_path: Path) -> None:
    server = server_from_question("kimi-k2.5", "8xH200", Machine(weights_path=str(tmp_path)))
    write("systemd", tmp_path, server)
    check = tmp_path / "usr/local/lib/dormouse/weights-check.sh"
    said = subprocess.run([str(check)], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert f"{tmp_path}/kimi-k2.5 is not on the volume" in said.stderr
    assert "/usr/local/lib/dormouse/fill-weights.sh" in said.stderr
    assert "dormouse weights" not in said.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing_in_the_scripts(tmp_path: Path) -> None:
    write("systemd", tmp_path)
    write("command", tmp_path)
    scripts = [str(path) for path in tmp_path.rglob("*.sh")]
    assert len(scripts) == 4
    said = subprocess.run(["shellcheck", "-s", "sh", *scripts], capture_output=True, text=True, check=False)
    assert said.stdout == ""


HEALTHY = {
    "driver_version": "580.95.05",
    "memory.total": "143771",
    "mig.mode.current": "Disabled",
    "persistence_mode": "Enabled",
    "memory.used": "4",
    "ecc.errors.uncorrected.volatile.total": "0",
    "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
}
TABLE = "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |"


def topology(link: str = "NV18", bad: str = "NV18") -> str:
    head = "\t" + "\t".join(f"\x1b[4mGPU{i}\x1b[0m" for i in range(8)) + "\tCPU Affinity"
    rows = [
        f"GPU{i}\t" + "\t".join("X" if i == j else bad if {i, j} == {0, 3} else link for j in range(8)) + "\t0-95"
        for i in range(8)
    ]
    return "\n".join([head, *rows, "NIC0\tSYS\tSYS"])


def looked_at(tmp_path: Path, **given: str) -> tuple[int, str]:
    """The preflight on a machine whose nvidia-smi and /proc answer as `given`; healthy where nothing is said."""
    bin_, proc = tmp_path / "bin", tmp_path / "proc"
    answers = tmp_path / "answers"
    answers.mkdir(parents=True)
    values = {**HEALTHY, **{key: value for key, value in given.items() if key in HEALTHY}}
    gpus = int(given.get("gpus", "8"))
    for name, value in values.items():
        (answers / name).write_text("\n".join([value] * gpus) + "\n")
    (answers / "table").write_text(given.get("table", TABLE) + "\n")
    (answers / "topology").write_text(given.get("topology", topology()) + "\n")
    state = given.get("fabric", "Completed")
    (answers / "all").write_text(f"    Fabric\n        State                       : {state}\n" * gpus)
    executable(
        bin_ / "nvidia-smi",
        f"""#!/bin/sh
case "$1" in
    --query-gpu=*) cat "{answers}/${{1#--query-gpu=}}" ;;
    topo) cat "{answers}/topology" ;;
    -q) cat "{answers}/all" ;;
    *) cat "{answers}/table" ;;
esac
""",
    )
    for name, value in (("kernel/numa_balancing", "0"), ("vm/swappiness", "1"), ("net/core/somaxconn", "4096")):
        path = proc / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given.get(name, value) + "\n")
    (proc / "meminfo").write_text(f"MemTotal:       {given.get('memory_kib', '2113654784')} kB\n")
    (proc / "net").mkdir()
    listening = given.get("listening", "1F91")
    (proc / "net/tcp").write_text(f"  sl  local rem st\n   0: 00000000:{listening} 00000000:0000 0A 0\n")
    proven = tmp_path / "models/kimi-k2.5/.dormouse/verified.json"
    proven.parent.mkdir(parents=True)
    proven.write_text("{}")
    server = server_from_question("kimi-k2.5", "8xH200", Machine(weights_path=str(tmp_path / "models")))
    text = texts("preflight", server)["preflight.sh"].replace("WANT_SHARED_KIB=33554432", "WANT_SHARED_KIB=1")
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "PROC": str(proc)}
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_healthy_machine_passes(tmp_path: Path) -> None:
    code, said = looked_at(tmp_path)
    assert code == 0, said
    assert "STOPS" not in said
    assert "warning" not in said
    assert said.endswith("nothing stops it, 0 unknown\n")
    assert "ok       topology     every pair of GPUs is joined by NVLink" in said


@pytest.mark.parametrize(
    ("given", "line", "remedy"),
    [
        ({"driver_version": "570.133.20"}, "STOPS    driver       570.133.20;", "install driver 580"),
        ({"table": TABLE.replace("13.0", "12.8")}, "STOPS    cuda         the driver supports CUDA up to 12.8", "580"),
        ({"gpus": "7"}, "STOPS    gpus         7 GPUs are seen, 8 are planned", "Xid 79"),
        ({"memory.total": "81559"}, "STOPS    gpus         a GPU has 81559 MiB", "--instance-type"),
        ({"mig.mode.current": "Enabled"}, "STOPS    mig ", "nvidia-smi -mig 0"),
        ({"memory.used": "70000"}, "STOPS    free         a GPU already has 70000 MiB in use", "end that one"),
        ({"ecc.errors.uncorrected.volatile.total": "3"}, "STOPS    memory-ecc", "ROW_REMAPPER"),
        ({"clocks_event_reasons.hw_thermal_slowdown": "Active"}, "STOPS    cooling", "air flow"),
        ({"fabric": "In Progress"}, "STOPS    fabric       the NVSwitch fabric is not up", "nvidia-fabricmanager"),
        ({"topology": topology(bad="SYS")}, "STOPS    topology     not NVLink: GPU0-GPU3 SYS", "NV#"),
        ({"memory_kib": "524288000"}, "STOPS    memory       500 GiB", "--memory-gib"),
        ({"listening": "1F40"}, "STOPS    port-8000    something listens on it already", "ss -ltnp"),
    ],
)  # fmt: skip
def test_each_fault_of_a_machine_is_named_with_its_remedy(
    tmp_path: Path, given: dict[str, str], line: str, remedy: str
) -> None:
    code, said = looked_at(tmp_path, **given)
    assert code == 1
    assert line in said
    assert remedy in said[said.index(line) :].splitlines()[1]
    assert said.count("STOPS") == 1, said
    assert said.endswith("1 would stop it, 0 unknown\n")


def test_what_only_slows_is_a_warning(tmp_path: Path) -> None:
    code, said = looked_at(tmp_path, persistence_mode="Disabled", **{"kernel/numa_balancing": "1"})
    assert code == 0
    assert "warning  persistence  persistence mode is off" in said
    assert "systemctl enable --now nvidia-persistenced" in said
    assert "sysctl -w kernel.numa_balancing=0" in said

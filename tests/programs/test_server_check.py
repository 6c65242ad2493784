"""A server's init container on a volume that the hydrator has filled: both pods' mounts, and the very command by sh."""

import subprocess
from pathlib import Path
from typing import Any

from components.programs.hydrator.volume import Volume
from serving.accelerators import instance_shape
from serving.manifests.deployment import ServiceNames, deployment
from serving.manifests.hydrate import HydrateJob, hydrate_cron_job
from serving.memory import EngineLimits
from serving.profiles import load_model
from serving.service_plan import plan_service
from serving.weights.manifest import HashOrigin, Manifest, ManifestFile, marker_of
from serving.weights.marker import CHECK_CONTAINER
from serving.weights.sources import parse_source

KIMI = load_model("kimi-k2.5")
NAMES = ServiceNames("dev", "dev", "kimi", "kimi", "kimi-api-key", "kimi-gateway", "dev")
COMMIT, OTHER = "c" * 40, "d" * 40


def container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in (*pod.get("initContainers", []), *pod["containers"]) if one["name"] == name]
    return found


def on_volume(path: str, mounts: list[dict[str, Any]], root: Path) -> Path:
    """Where the container's `path` lies below the root of the volume `weights`."""
    (mount,) = [one for one in mounts if one["name"] == "weights" and path.startswith(one["mountPath"] + "/")]
    return root / mount["subPath"] / path.removeprefix(mount["mountPath"] + "/")


def check(root: Path, revision: str = "") -> tuple[int, str]:
    plan = plan_service(KIMI, instance_shape("p5e.48xlarge"), EngineLimits(262_144, 64), 1000, 600)
    source = parse_source("huggingface", KIMI.repository, revision)
    made = deployment(NAMES, KIMI, plan, "kimi-a", "us-east-2a", "weights-a", source=source)
    one = container(made["spec"]["template"]["spec"], CHECK_CONTAINER)
    assert all(mount["readOnly"] for mount in one["volumeMounts"])
    command = [
        str(on_volume(word, one["volumeMounts"], root)) if word[0] == "/" else word for word in one["command"] if word
    ]
    command += [""] * (len(one["command"]) - len(command))
    log = {"DORMOUSE_TERMINATION_LOG": str(root / "words"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=log)
    return ran.returncode, ran.stderr or ran.stdout


def test_the_server_takes_what_the_hydrator_wrote_and_nothing_else(tmp_path: Path) -> None:
    job = HydrateJob("weights-a", "weights-a", "a", KIMI.name, "hf://moonshotai/Kimi-K2.5", "main", 2, 1000, "dev")
    cron_job = hydrate_cron_job(job, "dev", {})
    hydrator = container(cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"], "hydrator")
    (target,) = [one["value"] for one in hydrator["env"] if one["name"] == "DORMOUSE_TARGET"]
    folder = on_volume(target, hydrator["volumeMounts"], tmp_path)
    status, words = check(tmp_path)
    assert (status, f"{folder} is not on the volume" in words) == (1, True)
    volume = Volume(folder)
    volume.prepare()
    (folder / "config.json").write_text("{}")
    rows = (ManifestFile("config.json", 2, "0" * 64, HashOrigin.SOURCE),)
    manifest = Manifest(job.source, job.revision, COMMIT, rows)
    volume.keep_manifest(manifest)
    assert "the download never finished" in check(tmp_path)[1]
    volume.mark(marker_of(manifest, "2026-12-01T03:45:00Z", "download"))
    assert [check(tmp_path, revision)[0] for revision in ("", "main", "v2", COMMIT, OTHER)] == [0, 0, 0, 0, 1]
    volume.unmark()
    assert check(tmp_path)[0] == 1

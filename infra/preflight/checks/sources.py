"""What is fetched: the weights and the images, whether they are there and may be had."""

import json
import re
from urllib.parse import quote, urlencode

from infra.preflight.findings import Finding, Level, not_asked, ok, stops, warning
from infra.preflight.question import Question
from infra.preflight.web import Answer, ask_web
from serving.runtime import pinned_runtime

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_DOCKER_HUB = "registry-1.docker.io"


def weights(question: Question) -> list[Finding]:
    """The snapshot, or the model's repository on the hub: reachable, gated, and whether the token opens it."""
    snapshot_id, model = question.environment.weights.snapshot_id, question.environment.model
    if snapshot_id is not None:
        return [_snapshot(question, snapshot_id)]
    if question.simulated:
        return [not_asked("weights", "the cloud is simulated; the hub was left alone")]
    repository, revision = model.repository, model.revision
    url = f"{question.hub_url}/{quote(repository)}/resolve/{quote(revision)}/config.json"
    token = question.hub_token
    answer = ask_web("HEAD", url, {"Authorization": f"Bearer {token}"} if token else {})
    what = f"{repository} at {revision[:12]} on {question.hub_url}"
    how = "with the token in HF_TOKEN" if token else "without a token"
    gate = answer.headers.get("x-error-code", "")
    if answer.status < 400:
        return [ok("weights", f"{what} can be read {how}", status=answer.status)]
    if answer.status == 404:
        remedy = "check dormouse:model and HF_ENDPOINT"
        return [stops("weights", f"{what} does not exist ({gate or 404})", remedy)]
    if answer.status in (401, 403):
        reason = "is gated" if gate == "GatedRepo" else "refuses"
        remedy = (
            f"accept its terms at {question.hub_url}/{repository} with the account that owns the token"
            if token and answer.status == 403
            else "set HF_TOKEN to a token that may read it"
            if not token
            else "the token is wrong or has ended: make a new one and set HF_TOKEN"
        )
        return [stops("weights", f"{what} {reason} {how} (HTTP {answer.status})", remedy, gated=gate == "GatedRepo")]
    return [warning("weights", f"{what}: the hub answered HTTP {answer.status}", "run it again in a few minutes")]


def images(question: Question) -> list[Finding]:
    """Whether each pinned image's tag exists in its registry."""
    if question.simulated:
        return [not_asked("images", "the cloud is simulated; registries were left alone")]
    runtime = pinned_runtime()
    findings: list[Finding] = []
    for image in (runtime.vllm_image, runtime.gateway_image, runtime.device_plugin_image):
        try:
            findings.append(_image(question, image))
        except OSError as error:
            words = f"{image}: its registry could not be asked ({error.strerror or error})"
            findings.append(warning("images", words, "check the network or a proxy; nodes need it too"))
    return findings


def _image(question: Question, image: str) -> Finding:
    host, repository, tag = split_image(image)
    base = question.registry_urls.get(host, f"https://{host}").rstrip("/")
    url = f"{base}/v2/{repository}/manifests/{quote(tag)}"
    answer = ask_web("HEAD", url, {"Accept": _MANIFESTS})
    if answer.status == 401:
        token = _registry_token(answer, repository)
        if token is not None:
            answer = ask_web("HEAD", url, {"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"})
    if answer.status < 400:
        digest = answer.headers.get("docker-content-digest", "")
        return ok("images", f"{image} exists" + (f" ({digest[:19]})" if digest else ""), image=image, digest=digest)
    if answer.status == 404:
        return stops("images", f"{image} does not exist in {host}", "another release of Dormouse pins another tag")
    remedy = "run it again; anonymous pulls may be limited" if answer.status == 429 else "run it again"
    return Finding("images", Level.WARNING, f"{image}: {host} answered HTTP {answer.status}", remedy)


def split_image(image: str) -> tuple[str, str, str]:
    """Registry host, repository and tag of an image's name; Docker Hub where no host stands in it."""
    name, _, tag = image.rpartition(":")
    first, _, rest = name.partition("/")
    if "." in first or ":" in first:
        return first, rest, tag
    return _DOCKER_HUB, name if "/" in name else f"library/{name}", tag


def _registry_token(answer: Answer, repository: str) -> str | None:
    """An anonymous token from the realm that a registry names in its 401."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', answer.headers.get("www-authenticate", "")))
    if "realm" not in fields:
        return None
    scope = fields.get("scope", f"repository:{repository}:pull")
    query = urlencode({"service": fields.get("service", ""), "scope": scope})
    given = ask_web("GET", f"{fields['realm']}?{query}")
    if given.status != 200:
        return None
    document = json.loads(given.body)
    return document.get("token") or document.get("access_token")


def _snapshot(question: Question, snapshot_id: str) -> Finding:
    ec2 = question.account.client("ec2")
    filters = [{"Name": "snapshot-id", "Values": [snapshot_id]}]
    found = ec2.describe_snapshots(Filters=filters)["Snapshots"]
    if not found:
        return stops(
            "weights",
            f"{snapshot_id} is no snapshot that this account may read in {question.environment.region}",
            "check the id and the region, or share the snapshot; snapshots are copied with `aws ec2 copy-snapshot`",
        )
    state, size = str(found[0]["State"]), int(found[0]["VolumeSize"])
    if size > question.environment.weights.size_gib:
        return stops("weights", f"{snapshot_id} holds a volume of {size} GiB", f"dormouse:weightsSizeGib: {size}")
    if state != "completed":
        words = f"{snapshot_id} is {state} ({found[0].get('Progress') or '?'})"
        return warning("weights", words, "wait until it is completed")
    return ok("weights", f"{snapshot_id} is completed, {size} GiB", sizeGib=size)

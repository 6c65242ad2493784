"""What the hydrator is told by its environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from serving.errors import ConfigurationError, Fault
from serving.weights.marker import TERMINATION_LOG_PATH
from serving.weights.sources import (
    HUGGING_FACE_ENDPOINT,
    MODEL_SCOPE_ENDPOINT,
    SourceKind,
    WeightSource,
    parse_source,
)

MODES = ("hydrate", "verify", "copy-to-s3")
MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """The settings of one run.

    - `mode`: DORMOUSE_MODE or the first argument: `hydrate`, `verify` or `copy-to-s3`.
    - `source`: DORMOUSE_SOURCE with DORMOUSE_REVISION; None where the mode needs none.
    - `target`: DORMOUSE_TARGET, the model's folder. `required`: DORMOUSE_REQUIRED, patterns of files that must be there.
    - `copy_to`: DORMOUSE_COPY_TO, `s3://bucket/prefix`; None for no copy.
    - `token`: HF_TOKEN, never shown. `hub_endpoint`: HF_ENDPOINT. `model_scope_endpoint`: MODELSCOPE_ENDPOINT.
    - `region`: AWS_REGION. `s3_endpoint`: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL; "" is AWS.
    - `concurrency`: DORMOUSE_CONCURRENCY, files at once. `stall_s`: DORMOUSE_STALL_S, silence that ends a connection.
    - `attempts`: DORMOUSE_ATTEMPTS in a row without a byte. `backoff_s`: DORMOUSE_BACKOFF_S, the first wait.
    - `checkpoint_bytes`: DORMOUSE_CHECKPOINT_MIB, how often a part is made safe on disk.
    - `part_bytes`: DORMOUSE_PART_MIB, of a multipart upload.
    - `progress_s`: DORMOUSE_PROGRESS_S between two lines. `sample`: DORMOUSE_SAMPLE, files to verify; 0 is all.
    - `termination_log`: DORMOUSE_TERMINATION_LOG.
    """

    mode: str
    source: WeightSource | None
    target: Path
    required: tuple[str, ...]
    copy_to: WeightSource | None
    token: str = field(repr=False)
    hub_endpoint: str
    model_scope_endpoint: str
    region: str
    s3_endpoint: str
    concurrency: int
    stall_s: float
    attempts: int
    backoff_s: float
    checkpoint_bytes: int
    part_bytes: int
    progress_s: float
    sample: int
    termination_log: Path


def read_settings(environment: Mapping[str, str], arguments: tuple[str, ...] = ()) -> Settings:
    """The settings out of the environment; raises ConfigurationError naming every variable that is wrong."""
    faults: list[Fault] = []

    def text(name: str, default: str = "") -> str:
        return environment.get(name, "").strip() or default

    def number(name: str, default: float, least: float, most: float) -> float:
        given = text(name, str(default))
        try:
            value = float(given)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            faults.append(Fault(name, repr(given), f"a number from {least:g} to {most:g}"))
            return default
        return value

    def source(name: str, revision: str = "") -> WeightSource | None:
        try:
            return parse_source(text(name), "", revision, key=name)
        except ConfigurationError as wrong:
            faults.extend(wrong.faults)
            return None

    def endpoint(name: str, default: str) -> str:
        given = text(name, default).rstrip("/")
        if given and not given.startswith(("https://", "http://")):
            faults.append(Fault(name, repr(given), "an address that begins with https:// or http://"))
        return given

    mode = arguments[0] if arguments else text("DORMOUSE_MODE", MODES[0])
    if mode not in MODES:
        faults.append(Fault("DORMOUSE_MODE", repr(mode), ", ".join(MODES)))
    target = text("DORMOUSE_TARGET")
    if not target.startswith("/"):
        faults.append(Fault("DORMOUSE_TARGET", repr(target), "the model's folder as an absolute path"))
    copy_to = source("DORMOUSE_COPY_TO") if text("DORMOUSE_COPY_TO") or mode == "copy-to-s3" else None
    if copy_to is not None and copy_to.kind is not SourceKind.S3:
        faults.append(Fault("DORMOUSE_COPY_TO", str(copy_to), "s3://bucket/prefix"))
    weights = source("DORMOUSE_SOURCE", text("DORMOUSE_REVISION")) if mode == "hydrate" else None
    region = text("AWS_REGION") or text("AWS_DEFAULT_REGION")
    if not region and (copy_to is not None or (weights is not None and weights.kind is SourceKind.S3)):
        faults.append(Fault("AWS_REGION", "nothing", "the bucket's region, such as us-east-2"))
    hub_endpoint = endpoint("HF_ENDPOINT", HUGGING_FACE_ENDPOINT)
    if text("HF_TOKEN") and urlsplit(hub_endpoint).scheme == "http" and urlsplit(hub_endpoint).hostname != "127.0.0.1":
        faults.append(Fault("HF_ENDPOINT", f"{hub_endpoint!r} with a token", "https://, so that the token is not read"))
    settings = Settings(
        mode=mode,
        source=weights,
        target=Path(target),
        required=tuple(part.strip() for part in text("DORMOUSE_REQUIRED").split(",") if part.strip()),
        copy_to=copy_to,
        token=text("HF_TOKEN"),
        hub_endpoint=hub_endpoint,
        model_scope_endpoint=endpoint("MODELSCOPE_ENDPOINT", MODEL_SCOPE_ENDPOINT),
        region=region,
        s3_endpoint=endpoint("AWS_ENDPOINT_URL_S3", text("AWS_ENDPOINT_URL")),
        concurrency=int(number("DORMOUSE_CONCURRENCY", 16, 1, 256)),
        stall_s=number("DORMOUSE_STALL_S", 30, 0.05, 3600),
        attempts=int(number("DORMOUSE_ATTEMPTS", 10, 1, 1000)),
        backoff_s=number("DORMOUSE_BACKOFF_S", 1, 0.001, 60),
        checkpoint_bytes=int(number("DORMOUSE_CHECKPOINT_MIB", 256, 0.0625, 65536) * MIB),
        part_bytes=int(number("DORMOUSE_PART_MIB", 32, 5, 5120) * MIB),
        progress_s=number("DORMOUSE_PROGRESS_S", 5, 0.01, 3600),
        sample=int(number("DORMOUSE_SAMPLE", 0, 0, 100_000)),
        termination_log=Path(text("DORMOUSE_TERMINATION_LOG", TERMINATION_LOG_PATH)),
    )
    if faults:
        raise ConfigurationError(faults, "the hydrator's environment")
    return settings

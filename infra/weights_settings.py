"""The weight volumes' part of a configuration: size and speed, where the weights come from, and what fetches them."""

import re
from dataclasses import dataclass

from components.weight_hydration import HYDRATE_ON
from components.weight_volume import IOPS_PER_MIB_PER_S, IOPS_RANGE, LARGEST_GIB, THROUGHPUT_RANGE, iops_for
from infra.candidates import Candidate
from infra.configuration import NAMESPACE, ConfigurationReader
from serving.errors import ConfigurationError, Fault
from serving.profiles import ModelProfile
from serving.service_plan import volume_size_gib
from serving.weights.sources import ACCEPTED_SOURCES, SourceKind, parse_source

KEYS = (
    "huggingFaceEndpoint", "huggingFaceTokenSecret", "hydrateOn", "weightsIops", "weightsRevision", "weightsS3Copy",
    "weightsSizeGib", "weightsSource", "weightsThroughputAsleepMibps", "weightsThroughputMibps", "weightsZones",
)  # fmt: skip
TOKEN_KEY = "huggingFaceTokenSecret"  # noqa: S105 - the name of a key
_HUB_SOURCE = "huggingface"
_SNAPSHOT = re.compile(r"snap-[0-9a-f]{8,17}")


@dataclass(frozen=True)
class WeightSettings:
    """The weight volume: GiB, MiB/s, IOPS, a snapshot id where it starts from one, and whether S3 holds a copy too.

    - `throughput_asleep_mib_per_s`: while asleep, where jobs are to lower and raise it; None leaves it alone.
    - `source`, `revision`: what the hydrator downloads, such as `hf://org/name` and a commit.
    - `hydrate_on`: `cheap-node` or `gpu-node`.
    - `zones`: those of the candidates that keep a volume, as written there; the others load from the S3 copy.
    - `hub_endpoint`: a mirror of the Hugging Face hub, or None. `has_token`: whether a token of the hub is given.
    """

    size_gib: int
    throughput_mib_per_s: int
    iops: int
    snapshot_id: str | None
    s3_copy: bool = False
    source: str = _HUB_SOURCE
    revision: str | None = None
    hydrate_on: str = HYDRATE_ON[0]
    hub_endpoint: str | None = None
    has_token: bool = False
    zones: tuple[str, ...] = ()
    throughput_asleep_mib_per_s: int | None = None

    @property
    def asleep_mib_per_s(self) -> int:
        """MiB a second while asleep."""
        return (
            self.throughput_mib_per_s if self.throughput_asleep_mib_per_s is None else self.throughput_asleep_mib_per_s
        )

    @property
    def asleep_iops(self) -> int:
        """IOPS while asleep: nobody reads then, so no more than the throughput needs where it is lowered."""
        return self.iops if self.asleep_mib_per_s == self.throughput_mib_per_s else iops_for(self.asleep_mib_per_s)


def read_weights(read: ConfigurationReader, model: ModelProfile, candidates: tuple[Candidate, ...]) -> WeightSettings:
    """The settings for volumes in zones of `candidates`; every fault goes to `read`."""
    needed = volume_size_gib(model.published_weights_bytes)
    size = read.whole_number("weightsSizeGib", 1, LARGEST_GIB, needed, "GiB")
    smallest = -(-model.published_weights_bytes // 2**30)
    if size < smallest:
        read.fault("weightsSizeGib", str(size), f"{smallest} or more for {model.name}; left out it is {needed}")
    throughput = read.whole_number("weightsThroughputMibps", *THROUGHPUT_RANGE, 1000, "MiB/s")
    iops = read.whole_number("weightsIops", *IOPS_RANGE, iops_for(throughput))
    if iops < throughput * IOPS_PER_MIB_PER_S:
        read.fault(
            "weightsIops", str(iops), f"{iops_for(throughput)} or more at {throughput} MiB/s; left out it is that"
        )
    asleep = read.whole_number("weightsThroughputAsleepMibps", *THROUGHPUT_RANGE, throughput, "MiB/s")
    if asleep > throughput:
        read.fault(
            "weightsThroughputAsleepMibps",
            str(asleep),
            f"at most weightsThroughputMibps, {throughput}; left out it is that",
        )
    source, snapshot_id = _source(read, model)
    s3_copy = read.flag("weightsS3Copy", False)
    hydrate_on = read.choice("hydrateOn", HYDRATE_ON, HYDRATE_ON[0])
    return WeightSettings(
        size,
        throughput,
        iops,
        snapshot_id,
        s3_copy,
        source=source,
        revision=read.text("weightsRevision", "a revision") if read.has("weightsRevision") else None,
        hydrate_on=hydrate_on,
        hub_endpoint=_endpoint(read),
        has_token=read.has("huggingFaceTokenSecret"),
        zones=_zones(read, candidates, s3_copy=s3_copy),
        throughput_asleep_mib_per_s=asleep,
    )


def plain_token_fault() -> Fault:
    """The fault of a hub's token that stands in clear, without repeating it."""
    accepted = (
        f"a secret: pulumi config set --secret {NAMESPACE}:{TOKEN_KEY} …, and a new token, since this one was seen"
    )
    return Fault(f"{NAMESPACE}:{TOKEN_KEY}", "a token in clear", accepted)


def streaming_zones(weights: WeightSettings, candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    """Zones of `candidates` without a volume, as written there; they load from the S3 copy."""
    return tuple(dict.fromkeys(one.zone for one in candidates if one.zone not in weights.zones))


def _zones(read: ConfigurationReader, candidates: tuple[Candidate, ...], *, s3_copy: bool) -> tuple[str, ...]:
    """The zones that keep a volume: every candidate's, or those that `weightsZones` says."""
    every = tuple(dict.fromkeys(candidate.zone for candidate in candidates))
    zones = tuple(dict.fromkeys(read.texts("weightsZones")))
    if not zones:
        return every
    known = f"zones of capacity, written as there: {', '.join(every)}"
    for index, zone in enumerate(zones):
        if every and zone not in every:
            read.fault(f"weightsZones[{index}]", zone, known)
    bare = [zone for zone in every if zone not in zones]
    if bare and not s3_copy:
        read.fault(
            "weightsZones",
            f"{', '.join(zones)}, which leaves {', '.join(bare)} without weights",
            f"{', '.join(bare)} as well (with weightsSource snap-… those volumes start from a snapshot), or "
            "weightsS3Copy: true, from which a zone without a volume loads",
        )
    return zones


def _source(read: ConfigurationReader, model: ModelProfile) -> tuple[str, str | None]:
    """The source and the snapshot to start from; a volume of a snapshot is filled up from the model's own repository."""
    text = read.text("weightsSource", ACCEPTED_SOURCES, _HUB_SOURCE)
    if _SNAPSHOT.fullmatch(text):
        return _HUB_SOURCE, text
    revision = read.text("weightsRevision", "a revision") if read.has("weightsRevision") else ""
    try:
        source = parse_source(text, model.repository, revision)
    except ConfigurationError as wrong:
        for fault in wrong.faults:
            accepted = f"{fault.accepted}, or the id of a snapshot such as snap-0123456789abcdef0"
            read.fault(fault.key, text, accepted)
        return _HUB_SOURCE, None
    if source.kind is not SourceKind.HUGGING_FACE:
        for key in ("huggingFaceEndpoint", "huggingFaceTokenSecret"):
            if read.has(key):
                read.fault(key, "given", f"nothing, with weightsSource {text}: only the Hugging Face hub asks for it")
    return text, None


def _endpoint(read: ConfigurationReader) -> str | None:
    if not read.has("huggingFaceEndpoint"):
        return None
    accepted = "the address of a mirror of the hub, https://…"
    endpoint = read.text("huggingFaceEndpoint", accepted)
    if not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w./-]*)?", endpoint):
        read.fault("huggingFaceEndpoint", endpoint, accepted)
    return endpoint.rstrip("/")

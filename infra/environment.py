"""The one reader of a stack's configuration: keys in, a frozen and checked `Environment` out, all faults at once."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

import yaml

from components.cidr import vpc_fault
from components.cost_policy import scheduler_time
from components.weight_volume import IOPS_PER_MIB_PER_S, IOPS_RANGE, LARGEST_GIB, THROUGHPUT_RANGE, iops_for
from infra.candidates import Candidate, read_candidates
from infra.configuration import NAMESPACE, ConfigurationReader
from infra.engine_settings import EngineSettings, read_engine
from infra.timetable import ACCEPTED as ACCEPTED_TIMETABLE
from infra.timetable import Timetable, TimetableEntry, parse_entry
from infra.versions import default_kubernetes_version, kubernetes_minors
from serving.accelerators import InstanceShape, instance_shape, instance_shapes
from serving.errors import ConfigurationError
from serving.manifests.service import EXPOSURES, Access
from serving.memory import EngineLimits
from serving.profiles import ModelProfile, known_models, load_model
from serving.service_plan import volume_size_gib

KEYS = (
    "accountId", "adminPrincipalArns", "allowUnlistedZones", "allowedCidrs", "apiKeySecret", "capacity",
    "certificateArn", "contextTokens", "drainSeconds", "endpointCidrs", "expiresAt", "exposure", "extraArgs",
    "idleMinutes", "instanceType", "kubernetesVersion", "kvCacheDtype", "maxBatchedTokens", "maxSequences", "model",
    "monthlyBudgetUsd", "networkCidr", "notifyEmails", "owner", "patienceMinutes", "preset", "region", "replicas",
    "timeZone", "timetable", "weightsIops", "weightsSizeGib", "weightsSource", "weightsThroughputMibps",
)  # fmt: skip
_DEFAULT_MODEL = "kimi-k2.5"
_HUB_SOURCE = "huggingface"
_SHORTEST_KEY = 24


@dataclass(frozen=True)
class WeightSettings:
    """The weight volume: GiB, MiB/s, IOPS, and a snapshot id where it starts from one."""

    size_gib: int
    throughput_mib_per_s: int
    iops: int
    snapshot_id: str | None


@dataclass(frozen=True)
class CostSettings:
    """What the environment may cost: idle minutes before sleep, hours it is wanted, dollars a month, its last day."""

    idle_minutes: int
    timetable: Timetable
    monthly_budget_usd: int | None
    expires_at: str | None
    notify_emails: tuple[str, ...]


@dataclass(frozen=True)
class Environment:
    """One stack's whole configuration, checked. It holds no secret: the API key goes from Pulumi straight to its use."""

    name: str
    region: str
    account_id: str | None
    owner: str
    model: ModelProfile
    shape: InstanceShape
    replicas: int
    candidates: tuple[Candidate, ...]
    patience_s: int
    weights: WeightSettings
    engine: EngineSettings
    drain_s: int
    access: Access
    cost: CostSettings
    kubernetes_version: str
    endpoint_cidrs: tuple[str, ...]
    admin_principal_arns: tuple[str, ...]
    network_cidr: str

    @property
    def limits(self) -> EngineLimits:
        """The engine's limits, after the preset."""
        return self.engine.limits

    @property
    def extra_args(self) -> tuple[str, ...]:
        """The user's own arguments for vLLM, checked."""
        return self.engine.extra_args


def load(name: str, values: Mapping[str, Any], today: date, where: str = "the stack's configuration") -> Environment:
    """The environment called `name` out of its `dormouse:` keys, given without the namespace.

    Raises ConfigurationError with every fault. A secret may stand as Pulumi's own `{"secure": …}`; it is not opened.
    """
    read = ConfigurationReader(values, KEYS)
    region = read.text("region", "an AWS region, such as us-east-2")
    if region and not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
        read.fault("region", region, "an AWS region, such as us-east-2")
        region = ""
    model_name = read.choice("model", known_models(), _DEFAULT_MODEL)
    type_name = read.choice("instanceType", tuple(instance_shapes()))
    model = load_model(model_name if model_name in known_models() else _DEFAULT_MODEL)
    shape = instance_shape(type_name if type_name in instance_shapes() else next(iter(instance_shapes())))
    candidates = read_candidates(read, region, shape if type_name in instance_shapes() else None)
    replicas = read.whole_number("replicas", 1, 64, 1)
    if replicas > 1:
        read.fault("replicas", str(replicas), "1; several replicas of one model are not supported yet")
    version = read.choice("kubernetesVersion", tuple(kubernetes_minors()), default_kubernetes_version())
    minor = kubernetes_minors().get(version)
    if minor is not None and minor.standard_support_ends < today:
        newer = [m.version for m in kubernetes_minors().values() if m.standard_support_ends >= today]
        read.fault(
            "kubernetesVersion",
            f"{version} (standard support ended {minor.standard_support_ends})",
            ", ".join(newer) or "a newer release of Dormouse",
        )
    cidr = read.text("networkCidr", "a CIDR", "10.40.0.0/16")
    if fault := vpc_fault(cidr):
        read.fault("networkCidr", cidr, fault.split("accepted: ")[1])
    environment = Environment(
        name=name,
        region=region,
        account_id=_account(read),
        owner=read.text("owner", "who answers for this environment, such as a team's address"),
        model=model,
        shape=shape,
        replicas=replicas,
        candidates=candidates,
        patience_s=60 * read.whole_number("patienceMinutes", 1, 240, 15, "minutes"),
        weights=_weights(read, model),
        engine=read_engine(read, model, shape),
        drain_s=read.whole_number("drainSeconds", 30, 7200, 600, "seconds"),
        access=_access(read),
        cost=_cost(read, today),
        kubernetes_version=version,
        endpoint_cidrs=_cidrs(read, "endpointCidrs"),
        admin_principal_arns=_arns(read),
        network_cidr=cidr,
    )
    if read.faults:
        raise ConfigurationError(read.faults, where)
    return environment


def stack_file_values(text: str, where: str) -> dict[str, Any]:
    """The `dormouse:` keys of a stack file's text, without the namespace; raises ConfigurationError where it is none."""
    reader = ConfigurationReader({}, ())
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reader.fault("(file)", str(error).replace("\n", " "), "a YAML file")
        raise ConfigurationError(reader.faults, where) from error
    config = cast("dict[str, Any]", document).get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        reader.fault("(file)", "no `config:` section", f"a stack file with `config:` and `{NAMESPACE}:…` keys")
        raise ConfigurationError(reader.faults, where)
    prefix = f"{NAMESPACE}:"
    items = cast("dict[str, Any]", config).items()
    return {key.removeprefix(prefix): value for key, value in items if key.startswith(prefix)}


def _account(read: ConfigurationReader) -> str | None:
    if not read.has("accountId"):
        return None
    account = read.text("accountId", "12 digits").zfill(12)
    if not re.fullmatch(r"\d{12}", account):
        read.fault("accountId", account, "an AWS account id of 12 digits")
    return account


def _weights(read: ConfigurationReader, model: ModelProfile) -> WeightSettings:
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
    source = read.text("weightsSource", "huggingface or a snapshot id", _HUB_SOURCE)
    if source != _HUB_SOURCE and not re.fullmatch(r"snap-[0-9a-f]{8,17}", source):
        read.fault("weightsSource", source, "huggingface, or the id of a snapshot such as snap-0123456789abcdef0")
    return WeightSettings(size, throughput, iops, None if source == _HUB_SOURCE else source)


def _access(read: ConfigurationReader) -> Access:
    exposure = read.choice("exposure", EXPOSURES, "cluster")
    cidrs = _cidrs(read, "allowedCidrs")
    certificate = read.text("certificateArn", "an ACM certificate's ARN") if read.has("certificateArn") else None
    if certificate is not None and not certificate.startswith("arn:aws:acm:"):
        read.fault("certificateArn", certificate, "an ACM certificate's ARN, arn:aws:acm:…")
    if exposure == "public":
        if certificate is None:
            read.fault("certificateArn", "nothing", "an ACM certificate's ARN; a public endpoint speaks TLS only")
        if not cidrs:
            read.fault("allowedCidrs", "nothing", "the addresses that may call a public endpoint")
    if not read.has("apiKeySecret"):
        read.fault("apiKeySecret", "nothing", "a secret: pulumi config set --secret dormouse:apiKeySecret …")
    return Access(
        "public" if exposure == "public" else "internal" if exposure == "internal" else "cluster", cidrs, certificate
    )


def api_key_fault(key: str) -> str | None:
    """What is wrong with an API key, without repeating it, or None."""
    if len(key) < _SHORTEST_KEY or any(c.isspace() for c in key):
        return (
            f"a key of {len(key)} characters; accepted: {_SHORTEST_KEY} or more without spaces (openssl rand -hex 24)"
        )
    return None


def _cost(read: ConfigurationReader, today: date) -> CostSettings:
    zone_name = read.text("timeZone", "an IANA time zone", "UTC")
    if zone_name not in available_timezones():
        read.fault("timeZone", zone_name, "an IANA time zone, such as Europe/Berlin")
        zone_name = "UTC"
    entries: list[TimetableEntry] = []
    for index, text in enumerate(read.texts("timetable")):
        entry = parse_entry(text)
        if entry is None:
            read.fault(f"timetable[{index}]", text, ACCEPTED_TIMETABLE)
        else:
            entries.append(entry)
    expires = read.text("expiresAt", "an ISO time") if read.has("expiresAt") else None
    if expires is not None:
        accepted = "an ISO time in the future with its offset, such as 2027-01-31T18:00:00+01:00"
        if scheduler_time(expires) is None or datetime.fromisoformat(expires).date() < today:
            read.fault("expiresAt", expires, accepted)
    budget = (
        read.whole_number("monthlyBudgetUsd", 1, 10_000_000, 1, "US dollars") if read.has("monthlyBudgetUsd") else None
    )
    emails = read.texts("notifyEmails")
    for index, email in enumerate(emails):
        if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", email):
            read.fault(f"notifyEmails[{index}]", email, "an e-mail address")
    idle = read.whole_number("idleMinutes", 5, 1440, 30, "minutes")
    return CostSettings(idle, Timetable(tuple(entries), ZoneInfo(zone_name)), budget, expires, emails)


def _cidrs(read: ConfigurationReader, key: str) -> tuple[str, ...]:
    cidrs = read.texts(key)
    for index, cidr in enumerate(cidrs):
        try:
            ipaddress.IPv4Network(cidr)
        except ValueError:
            read.fault(f"{key}[{index}]", cidr, "an IPv4 block without host bits, such as 203.0.113.0/24")
    return cidrs


def _arns(read: ConfigurationReader) -> tuple[str, ...]:
    arns = read.texts("adminPrincipalArns")
    for index, arn in enumerate(arns):
        if not re.fullmatch(r"arn:aws:iam::\d{12}:(role|user)/.+", arn):
            read.fault(f"adminPrincipalArns[{index}]", arn, "an IAM role's or user's ARN, arn:aws:iam::…:role/…")
    return arns

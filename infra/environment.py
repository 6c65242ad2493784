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
from infra.brain.policy import Mode
from infra.brain.policy_text import worth_fault
from infra.candidates import Candidate, read_candidates
from infra.configuration import NAMESPACE, ConfigurationReader
from infra.engine_settings import EngineSettings, read_engine
from infra.loading_plan import storage_of
from infra.loading_settings import LoadingSettings, read_loading
from infra.replica_settings import ReplicaSettings, read_replicas
from infra.timetable import ACCEPTED as ACCEPTED_TIMETABLE
from infra.timetable import Timetable, TimetableEntry, parse_entry
from infra.versions import default_kubernetes_version, kubernetes_minors
from infra.weights_settings import WeightSettings, read_weights, streaming_zones
from serving.accelerators import InstanceShape, instance_shape, instance_shapes
from serving.errors import ConfigurationError
from serving.loading import WeightStorage
from serving.manifests.service import EXPOSURES, Access
from serving.memory import EngineLimits
from serving.profiles import ModelProfile, known_models, load_model

KEYS = (
    "accountId", "adminPrincipalArns", "allowedCidrs", "allowUnlistedZones", "apiKeySecret", "capacity",
    "certificateArn", "contextTokens", "delayedRequestWorth", "drainSeconds", "endpointCidrs", "expiresAt",
    "exposure", "extraArgs", "huggingFaceEndpoint", "huggingFaceTokenSecret", "hydrateOn", "idleMinutes",
    "imageCache", "imageCacheSecretArn", "imagePull", "instanceType", "kubernetesVersion", "kvCacheDtype",
    "loadingPath", "maxBatchedTokens", "maxSequences", "model", "monthlyBudgetUsd", "networkCidr", "nodesPerReplica",
    "notifyEmails", "owner", "patienceMinutes", "preset", "region", "replicas", "returnToPreferred", "sleepMode",
    "timetable", "timeZone", "wakesPerMonth", "weightsIops", "weightsRevision", "weightsS3Copy", "weightsSizeGib",
    "weightsSource", "weightsThroughputAsleepMibps", "weightsThroughputMibps", "weightsZones",
)  # fmt: skip
_DEFAULT_MODEL = "kimi-k2.5"
_SHORTEST_KEY = 24


@dataclass(frozen=True)
class CostSettings:
    """What the environment may cost: idle minutes before sleep, hours it is wanted, dollars a month, its last day.

    - `sleep_mode`: learned, timer or always. `delayed_request_worth`: a preset's name, or US dollars as text.
    """

    idle_minutes: int
    timetable: Timetable
    monthly_budget_usd: int | None
    expires_at: str | None
    notify_emails: tuple[str, ...]
    sleep_mode: str = "learned"
    delayed_request_worth: str = "balanced"


@dataclass(frozen=True)
class Environment:
    """One stack's whole configuration, checked. It holds no secret: the API key goes from Pulumi straight to its use."""

    name: str
    region: str
    account_id: str | None
    owner: str
    model: ModelProfile
    shape: InstanceShape
    replicas: ReplicaSettings
    candidates: tuple[Candidate, ...]
    patience_s: int
    return_to_preferred: bool
    weights: WeightSettings
    engine: EngineSettings
    loading: LoadingSettings
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
    def storage(self) -> WeightStorage:
        """Where the weights sleep: for every machine a volume in every zone that keeps one."""
        return _storage(self.weights, self.replicas.machines)

    @property
    def streaming_zones(self) -> tuple[str, ...]:
        """Zones of the candidates without a volume, as written there; they load from the S3 copy."""
        return streaming_zones(self.weights, self.candidates)

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
    replicas = read_replicas(read, shape)
    weights = read_weights(read, model, candidates)
    engine = read_engine(read, model, shape)
    cost = _cost(read, today)
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
        return_to_preferred=read.flag("returnToPreferred", False),
        weights=weights,
        engine=engine,
        loading=read_loading(
            read,
            model,
            shape,
            cost.timetable,
            _storage(weights, replicas.machines),
            engine.extra_args,
            streaming_zones(weights, candidates),
        ),
        drain_s=read.whole_number("drainSeconds", 30, 7200, 600, "seconds"),
        access=_access(read),
        cost=cost,
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


def _storage(weights: WeightSettings, machines: int) -> WeightStorage:
    volumes = max(1, len(weights.zones)) * machines
    billed = weights.asleep_mib_per_s, weights.asleep_iops
    return storage_of(weights.size_gib, weights.throughput_mib_per_s, billed, volumes, s3_copy=weights.s3_copy)


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
    worth = read.text("delayedRequestWorth", "thrifty, balanced, eager or US dollars", "balanced")
    if (accepted := worth_fault(worth)) is not None:
        read.fault("delayedRequestWorth", worth, accepted)
    mode = read.choice("sleepMode", tuple(Mode), Mode.LEARNED)
    timetable = Timetable(tuple(entries), ZoneInfo(zone_name))
    return CostSettings(idle, timetable, budget, expires, emails, mode, worth)


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

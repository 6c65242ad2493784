"""How weights and the engine's image reach a machine: the keys that decide the start, read and checked."""

import re
from dataclasses import dataclass

from infra.configuration import ConfigurationReader
from infra.timetable import Timetable
from serving.accelerators import InstanceShape
from serving.engine.extra_arguments import given_flags
from serving.engine.loading_arguments import LOADING_FLAGS
from serving.errors import ConfigurationError
from serving.loading import StoragePrices, WeightStorage, compare_loading
from serving.loading_choice import AUTO, CHOICES, choose_loading
from serving.profiles import ModelProfile

KEYS = ("imageCache", "imageCacheSecretArn", "imagePull", "loadingPath", "wakesPerMonth")
IMAGE_PULLS = ("parallel", "standard")
IMAGE_CACHES = ("none", "ecr")
WORKING_DAYS_PER_MONTH = 22
"""Wakes a month where neither `wakesPerMonth` nor a timetable says: one each working day."""
_WEEKS_PER_MONTH = 730 / 168
_SECRET = re.compile(r"arn:aws[\w-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:ecr-pullthroughcache/[\w/+=.@-]+")
_NO_PRICES = StoragePrices(None, None, None, None, None)


@dataclass(frozen=True)
class LoadingSettings:
    """What the start of a replica is set to.

    - `wanted`: one of `CHOICES`; `wanted_by`: the key that says so. `wakes_per_month`: what a path's dollars a month are counted with.
    - `wakes_from`: where that number comes from, in words.
    - `parallel_pull`: whether nodes pull and unpack image layers in parallel.
    - `image_cache_secret_arn`: the credentials of an ECR pull-through cache of Docker Hub; None without the cache.
    """

    wanted: str
    wanted_by: str
    wakes_per_month: float
    wakes_from: str
    parallel_pull: bool
    image_cache_secret_arn: str | None


def read_loading(
    read: ConfigurationReader,
    model: ModelProfile,
    shape: InstanceShape,
    timetable: Timetable,
    storage: WeightStorage,
    extra_args: tuple[str, ...],
    streaming: tuple[str, ...] = (),
) -> LoadingSettings:
    """The settings; a path that this environment cannot take, and what contradicts it, become faults of `read`.

    `streaming` are zones without a volume, which load from S3 whatever the others do.
    """
    wanted, wanted_by = read.choice("loadingPath", CHOICES, AUTO), "loadingPath"
    flags = sorted(given_flags(extra_args) & LOADING_FLAGS)
    if flags and wanted == AUTO:
        # A loader of the user's own reads files, so they must lie on a disk.
        wanted, wanted_by = "volume", "extraArgs"
    if wanted in CHOICES:
        estimates = compare_loading(model.published_weights_bytes, shape, storage, _NO_PRICES, None)
        try:
            choose_loading(estimates, wanted, WORKING_DAYS_PER_MONTH, wanted_by)
        except ConfigurationError as refused:
            for fault in refused.faults:
                read.fault(fault.key, fault.value, fault.accepted)
    if flags and wanted != "volume":
        read.fault("extraArgs", ", ".join(flags), f"none of them with loadingPath {wanted}, which sets them itself")
    elif flags and streaming:
        words = f"none of them while {', '.join(streaming)} has no weight volume (weightsZones) and streams from S3"
        read.fault("extraArgs", ", ".join(flags), words)
    if read.has("wakesPerMonth"):
        wakes = float(read.whole_number("wakesPerMonth", 1, 1000, WORKING_DAYS_PER_MONTH, "wakes"))
        wakes_from = "wakesPerMonth"
    elif timetable.entries:
        wakes, wakes_from = timetable.starts_per_week * _WEEKS_PER_MONTH, "the timetable"
    else:
        wakes, wakes_from = float(WORKING_DAYS_PER_MONTH), "one each working day; wakesPerMonth says otherwise"
    return LoadingSettings(
        wanted,
        wanted_by,
        wakes,
        wakes_from,
        read.choice("imagePull", IMAGE_PULLS, "standard") == "parallel",
        _cache(read),
    )


def _cache(read: ConfigurationReader) -> str | None:
    cache = read.choice("imageCache", IMAGE_CACHES, "none")
    accepted = (
        "the ARN of a Secrets Manager secret called ecr-pullthroughcache/… in this region, with username and accessToken"
        " of a Docker Hub account: ECR asks Docker Hub for no image without one"
    )
    if not read.has("imageCacheSecretArn"):
        if cache == "ecr":
            read.fault("imageCacheSecretArn", "nothing", accepted)
        return None
    arn = read.text("imageCacheSecretArn", accepted)
    if cache != "ecr":
        read.fault("imageCacheSecretArn", arn, "nothing, unless imageCache is ecr")
    if not _SECRET.fullmatch(arn):
        read.fault("imageCacheSecretArn", arn, accepted)
    return arn

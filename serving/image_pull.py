"""What pulling the engine's image adds to a wake, by each way to shorten it; every figure is somebody's, none is ours."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class PullEstimate:
    """One way to get the image onto a fresh node: seconds saved against the plain pull, low and high; None unknown."""

    way: str
    saves_low_s: float | None
    saves_high_s: float | None
    in_use: bool
    text: str
    source: str


def pull_estimates(usd_per_hour: float | None, *, parallel: bool) -> tuple[PullEstimate, ...]:
    """The plain pull, the parallel one, a cache in ECR, and an image baked into the disk; `parallel` is what nodes do."""
    row = _image()
    fast, slow = row["plain_fast_s"], row["plain_slow_s"]
    low, high = fast * row["parallel_saves_share_low"], slow * row["parallel_saves_share_high"]
    size = f"{row['compressed_gb_low']} to {row['compressed_gb_high']} GB"
    plain = f"Pulling the image ({size}) adds {fast / 60:.0f} to {slow / 60:.0f} min"
    if usd_per_hour is not None:
        plain += f", ${usd_per_hour * fast / 3600:,.2f} to ${usd_per_hour * slow / 3600:,.2f}"
    used = "in use" if parallel else "off: imagePull is standard"
    return (
        PullEstimate("plain", 0.0, 0.0, not parallel, f"{plain} to a wake (estimate).", row["plain_source"]),
        PullEstimate(
            "parallel",
            low,
            high,
            parallel,
            f"  parallel pull and unpack ({used}) saves {low:.0f} s to {high:.0f} s of it, by how even the layers are.",
            row["parallel_source"],
        ),
        PullEstimate(
            "ecr",
            None,
            None,
            False,
            "  a cache in ECR (imageCache: ecr) takes Docker Hub out of the wake; its gain in seconds is not published.",
            row["cache_source"],
        ),
        PullEstimate(
            "baked",
            None,
            float(slow),
            False,
            f"  an image baked into the node's disk (dormouse image recipe) saves at most the {slow / 60:.0f} min.",
            row["baked_source"],
        ),
    )


@cache
def _image() -> dict[str, Any]:
    text = (resources.files("serving") / "data" / "loading.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["image"]

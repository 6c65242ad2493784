"""What the engine tier consists of: which Go packages, at which pins, built how, and the key that names the result.

Versions are pinned in `engine/*/go.mod` alone; this module reads them there.
"""

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.builder.errors import EngineBuildError

ENGINE_FOLDER = Path(__file__).resolve().parent.parent

# Test binaries: compiling fast and small counts, running fast does not, so optimiser and debug tables are off.
GO_BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-gcflags=all=-N -l -dwarf=false")
LINKER_FLAGS = "-s -w"

PULUMI_SDK = "github.com/pulumi/pulumi/sdk/v3"
KUBERNETES_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_VERSION_OF_KUBERNETES = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Target:
    """One binary.

    - `name`: its file name in `bin/`.
    - `folder`: the folder under `engine/` whose go.mod pins it.
    - `package`: the Go package to build; `.` is the folder's own main.
    - `stamps`: linker variables by name, with `{version}`, `{major}`, `{minor}` of `stamped_from`'s pin.
    - `embeds`: files of module `embeds_from` that the folder's own main embeds.
    """

    name: str
    folder: str
    package: str
    stamped_from: str = ""
    stamps: tuple[tuple[str, str], ...] = ()
    embeds_from: str = ""
    embeds: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopiedFile:
    """One file made of module files, joined in order as YAML documents where there are several.

    - `destination`: its path under the cache folder, such as `bin/pulumi-language-python-exec`.
    - `folder`, `module`: the go.mod that pins it, and the module that carries `sources`.
    """

    destination: str
    folder: str
    module: str
    sources: tuple[str, ...]
    executable: bool = False


# Without its stamp the API server calls itself v0.0.0 and clients that compare versions misbehave.
_KUBERNETES_STAMPS = (
    (f"{_VERSION_OF_KUBERNETES}.gitVersion", "{version}"),
    (f"{_VERSION_OF_KUBERNETES}.gitMajor", "{major}"),
    (f"{_VERSION_OF_KUBERNETES}.gitMinor", "{minor}"),
)


def _kubernetes(name: str) -> Target:
    return Target(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes", _KUBERNETES_STAMPS)


TARGETS = (
    Target("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Target("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Target(
        "pulumi-language-python", "language-python", "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
    ),
    Target(
        "pulumi",
        "pulumi",
        "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        "github.com/pulumi/pulumi/pkg/v3",
        ((f"{PULUMI_SDK}/go/common/version.Version", "{version}"),),
    ),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    Target(
        "pulumi-resource-kubernetes",
        "kubernetes-provider",
        ".",
        embeds_from=KUBERNETES_PROVIDER,
        embeds=(
            "cmd/pulumi-resource-kubernetes/schema.json",
            "cmd/pulumi-resource-kubernetes/terraform-mapping.json",
        ),
    ),
)

COPIED_FILES = (
    CopiedFile(
        "bin/pulumi-language-python-exec", "pulumi", PULUMI_SDK, ("python/cmd/pulumi-language-python-exec",), True
    ),
    CopiedFile(
        "bin/pulumi-resource-pulumi-python", "pulumi", PULUMI_SDK, ("python/dist/pulumi-resource-pulumi-python",), True
    ),
    CopiedFile(
        "share/kwok-stages.yaml",
        "kwok",
        "sigs.k8s.io/kwok",
        (
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/fast/pod-ready.yaml",
            "kustomize/stage/pod/fast/pod-complete.yaml",
            "kustomize/stage/pod/fast/pod-delete.yaml",
        ),
    ),
)

# What an installed Pulumi brings itself.
PULUMI_NAMES = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")


def product_paths() -> tuple[str, ...]:
    """Every file that a complete build has, relative to its cache folder."""
    return (*(f"bin/{target.name}" for target in TARGETS), *(file.destination for file in COPIED_FILES))


def pinned_version(folder: str, module: str, engine_folder: Path = ENGINE_FOLDER) -> str:
    """The version of `module` that `engine/<folder>/go.mod` requires, such as `v3.276.0`.

    Raises EngineBuildError where the file or the pin is missing.
    """
    path = engine_folder / folder / "go.mod"
    pattern = re.compile(rf"^(?:require\s+|\s+){re.escape(module)}\s+(v\S+)", re.MULTILINE)
    found = pattern.search(_text(path))
    if found is None:
        raise EngineBuildError(f"{path} pins no version of {module}; restore the file from the repository")
    return found.group(1)


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `v3.276.0-dev` and `go1.26.8` give (3, 276, 0) and (1, 26, 8)."""
    found = re.match(r"(?:v|go)?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def required_go(engine_folder: Path = ENGINE_FOLDER) -> tuple[int, ...]:
    """The newest Go version that any go.mod asks for, such as (1, 26, 6)."""
    versions: list[tuple[int, ...]] = []
    for path in _sources(engine_folder, "go.mod"):
        found = re.search(r"^go\s+(\S+)", _text(path), re.MULTILINE)
        versions.append(version_numbers(found.group(1)) if found else ())
    return max(versions)


def stamp_flags(target: Target, engine_folder: Path = ENGINE_FOLDER) -> str:
    """The linker's flags for `target`: strip, and the version that it shall report."""
    if not target.stamps:
        return LINKER_FLAGS
    version = pinned_version(target.folder, target.stamped_from, engine_folder)
    major, minor, *_ = version_numbers(version)
    stamps = (f"-X {name}={value.format(version=version, major=major, minor=minor)}" for name, value in target.stamps)
    return " ".join((LINKER_FLAGS, *stamps))


def cache_key(go_minor: tuple[int, ...], engine_folder: Path = ENGINE_FOLDER) -> str:
    """The name of the build's folder: 16 hexadecimal digits that change with anything that changes a binary.

    - `go_minor`: Go's version as far as it counts, such as (1, 26).
    """
    digest = hashlib.sha256()
    for path in _sources(engine_folder, "go.mod", "go.sum", "main.go"):
        digest.update(f"{path.relative_to(engine_folder).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    # The recipe's own values stand for this module's text, so that a comment here does not cost a rebuild.
    recipe = (GO_BUILD_FLAGS, LINKER_FLAGS, TARGETS, COPIED_FILES, go_minor, sys.platform, platform.machine())
    digest.update(repr(recipe).encode())
    return digest.hexdigest()[:16]


def _sources(engine_folder: Path, *names: str) -> list[Path]:
    paths = sorted(path for name in names for path in engine_folder.glob(f"*/{name}"))
    if not paths:
        raise EngineBuildError(f"{engine_folder} holds no */{names[0]}; restore the folder from the repository")
    return paths


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EngineBuildError(f"{path} is missing; restore the file from the repository") from error

"""Where weights come from: what the user writes, read into a kind, a place and a revision."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from serving.errors import ConfigurationError, Fault

HUGGING_FACE_ENDPOINT = "https://huggingface.co"
MODEL_SCOPE_ENDPOINT = "https://www.modelscope.cn"
ACCEPTED_SOURCES = (
    "huggingface (the model's own repository), hf://org/name[@revision], modelscope://org/name[@revision] "
    "or s3://bucket/prefix"
)

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]*")
# S3's naming rules for general-purpose buckets (S3 user guide): 3 to 63 of a-z 0-9 . -, letter or digit at both ends.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[\w!.*'()/=+@:,-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class SourceKind(StrEnum):
    """Who keeps the weights; the value is the scheme of the source's address."""

    HUGGING_FACE = "hf"
    MODEL_SCOPE = "modelscope"
    S3 = "s3"


DEFAULT_REVISIONS = {SourceKind.HUGGING_FACE: "main", SourceKind.MODEL_SCOPE: "master", SourceKind.S3: ""}


@dataclass(frozen=True)
class WeightSource:
    """A source of weights.

    - `location`: `org/name` of a hub's repository, or `bucket/prefix` (no slash at its end).
    - `revision`: the branch, tag or commit that was asked for; "" in S3, which has none.
    """

    kind: SourceKind
    location: str
    revision: str = ""

    @property
    def address(self) -> str:
        """The canonical address without revision, such as `hf://moonshotai/Kimi-K2.5`."""
        return f"{self.kind.value}://{self.location}"

    def __str__(self) -> str:
        """The address with its revision."""
        return f"{self.address}@{self.revision}" if self.revision else self.address

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return is_commit(self.revision)

    @property
    def bucket(self) -> str:
        """The bucket of an S3 source."""
        return self.location.partition("/")[0]

    @property
    def prefix(self) -> str:
        """The prefix of an S3 source, without a slash at its end; "" is the whole bucket."""
        return self.location.partition("/")[2]


def is_commit(revision: str) -> bool:
    """Whether `revision` is the full name of a commit."""
    return _COMMIT.fullmatch(revision) is not None


def parse_source(text: str, repository: str = "", revision: str = "", *, key: str = "weightsSource") -> WeightSource:
    """The source that `text` names.

    - `repository`: the model's own on the Hugging Face hub, for `huggingface`.
    - `revision`: used where `text` has no `@revision`; "" is the hub's default branch.
    - `key`: the setting that a fault names.

    Raises ConfigurationError with every fault.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        if text.strip() != "huggingface" or not repository:
            _refuse(key, text)
        scheme, rest = "hf", repository
    if scheme not in set(SourceKind):
        _refuse(key, text)
    kind = SourceKind(scheme)
    if kind is SourceKind.S3:
        return _s3_source(text, rest.rstrip("/"), revision, key)
    place, at, written = rest.partition("@")
    wanted = written if at else revision or DEFAULT_REVISIONS[kind]
    faults: list[Fault] = []
    if not _REPOSITORY.fullmatch(place):
        faults.append(Fault(key, repr(text), f"a repository as org/name behind {scheme}://"))
    if not _REVISION.fullmatch(wanted) or ".." in wanted:
        faults.append(Fault(key, repr(text), "a branch, a tag or a commit of 40 digits behind @"))
    if at and revision and written != revision:
        faults.append(Fault(key, f"{text!r} with the revision {revision!r}", "the revision in one place only"))
    if faults:
        raise ConfigurationError(faults, "the weight source")
    return WeightSource(kind, place, wanted)


def _s3_source(text: str, location: str, revision: str, key: str) -> WeightSource:
    bucket, _, prefix = location.partition("/")
    faults: list[Fault] = []
    if not _BUCKET.fullmatch(bucket):
        faults.append(Fault(key, repr(text), "a bucket's name of 3 to 63 letters a-z, digits, dots and dashes"))
    if not _PREFIX.fullmatch(prefix) or prefix.startswith("/") or "//" in prefix:
        faults.append(Fault(key, repr(text), "a prefix of plain characters, without a slash at its start"))
    if revision:
        faults.append(Fault(key, f"{text!r} with the revision {revision!r}", "no revision: a prefix in S3 has none"))
    if faults:
        raise ConfigurationError(faults, "the weight source")
    return WeightSource(SourceKind.S3, location)


def _refuse(key: str, text: str) -> NoReturn:
    raise ConfigurationError([Fault(key, repr(text), ACCEPTED_SOURCES)], "the weight source")

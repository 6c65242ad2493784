import pytest

from serving.errors import ConfigurationError
from serving.weights.sources import SourceKind, WeightSource, parse_source


@pytest.mark.parametrize(
    ("text", "revision", "expected"),
    [
        ("huggingface", "", WeightSource(SourceKind.HUGGING_FACE, "moonshotai/Kimi-K2.5", "main")),
        ("huggingface", "v1.0", WeightSource(SourceKind.HUGGING_FACE, "moonshotai/Kimi-K2.5", "v1.0")),
        ("hf://org/name@refs/pr/7", "", WeightSource(SourceKind.HUGGING_FACE, "org/name", "refs/pr/7")),
        ("modelscope://org/name", "", WeightSource(SourceKind.MODEL_SCOPE, "org/name", "master")),
        ("s3://weights-bucket/k2.5/", "", WeightSource(SourceKind.S3, "weights-bucket/k2.5")),
        ("s3://weights-bucket", "", WeightSource(SourceKind.S3, "weights-bucket")),
    ],
)
def test_a_source_is_read_into_kind_place_and_revision(text: str, revision: str, expected: WeightSource) -> None:
    assert parse_source(text, "moonshotai/Kimi-K2.5", revision) == expected


def test_addresses_are_canonical() -> None:
    source = parse_source("hf://org/name@" + "a" * 40)
    assert (source.address, str(source), source.pinned) == ("hf://org/name", "hf://org/name@" + "a" * 40, True)
    copy = parse_source("s3://weights-bucket/a/b/")
    assert (copy.bucket, copy.prefix, str(copy), copy.pinned) == (
        "weights-bucket", "a/b", "s3://weights-bucket/a/b", False
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "revision", "accepted"),
    [
        ("huggingface.co/org/name", "", "hf://org/name"),
        ("gs://bucket/x", "", "s3://bucket/prefix"),
        ("hf://org", "", "org/name behind hf://"),
        ("hf://org/name@../../x", "", "a branch, a tag or a commit"),
        ("hf://org/name@main", "v2", "the revision in one place only"),
        ("s3://Bucket/x", "", "3 to 63 letters"),
        ("s3://bucket/a//b", "", "without a slash at its start"),
        ("s3://bucket/a", "main", "no revision"),
        ("", "", "huggingface"),
    ],
)
def test_a_wrong_source_says_what_is_accepted(text: str, revision: str, accepted: str) -> None:
    with pytest.raises(ConfigurationError, match=accepted) as refused:
        parse_source(text, "org/model", revision)
    assert {fault.key for fault in refused.value.faults} == {"weightsSource"}

"""The copy in S3, both ways, against moto's S3 over real sockets; signatures against botocore's."""

import hashlib
import itertools
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from components.programs.hydrator.faults import HydrateError
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.s3.client import S3Client
from components.programs.hydrator.s3.copy import Copied, S3Copy
from components.programs.hydrator.s3.credentials import CredentialSource
from components.programs.hydrator.s3.signing import EMPTY_SHA256, Credentials, object_url, signed_headers
from components.programs.hydrator.transport import Transport
from components.programs.hydrator.volume import Volume
from serving.weights.manifest import HashOrigin
from serving.weights.sources import parse_source
from tests.programs.hub import REPOSITORY, Hub
from tests.programs.model import COMMIT, MadeUpModel, made_up_model
from tests.programs.running import assert_whole, environment, finish, last_words, run, settings_of, start

REGION = "us-east-2"
PART_BYTES = 5 * 2**20


@pytest.fixture(scope="module")
def large() -> MadeUpModel:
    return made_up_model(shards=2, shard_mb=6)


@pytest.fixture(scope="module")
def hydrated(large: MadeUpModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("volume") / "model"
    with Hub(large) as hub:
        run(settings_of(hub, target))
    return target


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIAMADEUP")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
        patch.setattr(logging.getLogger("werkzeug"), "level", logging.CRITICAL)
        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Iterator[Any]:
    name = f"weights-{next(COUNTER)}"
    found: Any = boto3.resource("s3", endpoint_url=endpoint, region_name=REGION).Bucket(name)
    found.create(CreateBucketConfiguration={"LocationConstraint": REGION})
    yield found
    found.objects.delete()


COUNTER = itertools.count()


def copy(target: Path, bucket: Any, client: S3Client | None = None, endpoint: str = "", concurrency: int = 4) -> Copied:
    transport = Transport(30, 5, 0.01, Event())
    client = client or S3Client(transport, REGION, endpoint)
    destination = parse_source(f"s3://{bucket.name}/k2.5")
    return S3Copy(Volume(target), destination, client, transport, Progress(None, 60, lambda _: None), PART_BYTES).run(
        concurrency
    )


def from_s3(target: Path, bucket: Any, endpoint: str, prefix: str = "k2.5") -> Any:
    from components.programs.hydrator.settings import read_settings

    return read_settings({
        "DORMOUSE_SOURCE": f"s3://{bucket.name}/{prefix}", "DORMOUSE_TARGET": str(target), "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint, "DORMOUSE_STALL_S": "30", "DORMOUSE_BACKOFF_S": "0.01",
    })  # fmt: skip


def test_there_and_back_the_bytes_and_their_identity_are_the_same(
    hydrated: Path, large: MadeUpModel, bucket: Any, endpoint: str, tmp_path: Path
) -> None:
    copied = copy(hydrated, bucket, endpoint=endpoint)
    assert (copied.files_sent, copied.sent_bytes) == (len(large.files), large.total_bytes)
    stored = {item.key.removeprefix("k2.5/"): item.size for item in bucket.objects.all()}
    assert {path: len(data) for path, data in large.files.items()}.items() <= stored.items()
    shard: Any = bucket.Object(f"k2.5/{large.shards[0]}")
    assert shard.metadata["dormouse-sha256"] == hashlib.sha256(large.files[large.shards[0]]).hexdigest()

    target = tmp_path / "other-zone"
    run(from_s3(target, bucket, endpoint))
    assert_whole(target, large)
    manifest, marker = Volume(target).manifest(), Volume(target).marker()
    assert manifest is not None
    assert marker is not None
    assert (manifest.source, manifest.revision) == (f"hf://{REPOSITORY}", COMMIT)
    first = Volume(hydrated).manifest()
    assert first is not None
    assert {file.path: file.sha256 for file in manifest.files} == {file.path: file.sha256 for file in first.files}
    assert run(from_s3(target, bucket, endpoint)).outcome == "already verified"

    again = copy(hydrated, bucket, endpoint=endpoint)
    assert again == Copied(len(large.files), 0, 0)


class Killed(BaseException):
    """The process is gone."""


class DyingClient(S3Client):
    """Dies after so many calls that reached S3."""

    def __init__(self, endpoint: str, calls: int) -> None:
        super().__init__(Transport(30, 5, 0.01, Event()), REGION, endpoint)
        self.calls_left = calls
        self.part_numbers: list[tuple[str, int]] = []

    def _call(self, method: str, bucket: str, key: str, query: Mapping[str, str], *rest: Any, **more: Any) -> Any:
        answer = super()._call(method, bucket, key, query, *rest, **more)
        if "partNumber" in query:
            self.part_numbers.append((key, int(query["partNumber"])))
        self.calls_left -= 1
        if self.calls_left <= 0:
            raise Killed
        return answer


def test_killed_after_every_few_calls_it_sends_every_part_once(
    hydrated: Path, large: MadeUpModel, bucket: Any, endpoint: str, tmp_path: Path
) -> None:
    sent: list[tuple[str, int]] = []
    for calls in itertools.count(7):  # the first calls only look; each life gets one call further
        client = DyingClient(endpoint, calls)
        try:
            copy(hydrated, bucket, client, concurrency=1)
        except Killed:
            sent += client.part_numbers
        else:
            sent += client.part_numbers
            break
    large_keys = [f"k2.5/{shard}" for shard in large.shards]
    parts = [(key, number) for key in large_keys for number in (1, 2)]
    # A part that arrived while its sender died is not sent again: S3 is asked what it has.
    assert sorted(sent) == sorted(parts)
    for path, data in large.files.items():
        assert bucket.Object(f"k2.5/{path}").get()["Body"].read() == data
    s3: Any = bucket.meta.client
    # One that died before it had noted its upload leaves one without parts, which costs nothing.
    for upload in s3.list_multipart_uploads(Bucket=bucket.name).get("Uploads", []):
        assert "Parts" not in s3.list_parts(Bucket=bucket.name, Key=upload["Key"], UploadId=upload["UploadId"])


def test_a_copy_under_way_is_not_taken_for_a_whole_one(
    hydrated: Path, bucket: Any, endpoint: str, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        copy(hydrated, bucket, DyingClient(endpoint, 6), concurrency=1)
    with pytest.raises(HydrateError, match="is not finished"):
        run(from_s3(tmp_path / "model", bucket, endpoint))


def test_files_that_somebody_put_there_are_taken_without_a_manifest(
    large: MadeUpModel, bucket: Any, endpoint: str, tmp_path: Path
) -> None:
    small = made_up_model(shards=2, shard_mb=0.1)
    for path, data in small.everything.items():
        bucket.Object(f"mine/{path}").put(Body=data)
    target = tmp_path / "model"
    run(from_s3(target, bucket, endpoint, "mine"))
    assert_whole(target, small)
    manifest = Volume(target).manifest()
    assert manifest is not None
    assert {file.origin for file in manifest.files} == {HashOrigin.COMPUTED}


def test_an_empty_prefix_and_a_bucket_that_is_not_there_are_named(bucket: Any, endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(HydrateError, match=f"nothing lies below s3://{bucket.name}/nowhere"):
        run(from_s3(tmp_path / "model", bucket, endpoint, "nowhere"))
    nobodys = SimpleNamespace(name="nobodys-bucket")
    with pytest.raises(HydrateError, match="404 NoSuchBucket.*no such bucket or key"):
        run(from_s3(tmp_path / "model", nobodys, endpoint))


def test_a_hydrate_fills_the_copy_too_as_the_pod_runs_it(
    hub: Hub, model: MadeUpModel, bucket: Any, endpoint: str, program: Path, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    more = {
        "DORMOUSE_COPY_TO": f"s3://{bucket.name}/k2.5", "AWS_REGION": REGION, "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "AKIAMADEUP", "AWS_SECRET_ACCESS_KEY": "made-up",
    }  # fmt: skip
    status, output = finish(start(program, environment(hub, target, **more)))
    assert status == 0, output
    assert "made-up\n" not in output
    words = last_words(target)
    assert (words["copied_files"], words["copied_bytes"]) == (len(model.files), model.total_bytes)
    assert (
        bucket.Object("k2.5/.dormouse/verified.json").get()["Body"].read()
        == (target / ".dormouse" / "verified.json").read_bytes()
    )


def test_credentials_of_the_pod_come_from_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    asked: list[str] = []

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            body = json.dumps({
                "AccessKeyId": "ASIA1", "SecretAccessKey": "s", "Token": "t", "Expiration": "2999-01-01T00:00:00Z"
            }).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    source = CredentialSource(Transport(5, 1, 0.01, Event()))
    with pytest.raises(HydrateError, match="no AWS credentials in this pod"):
        source.current()
    server = HTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    (tmp_path / "token").write_text("pod's own\n")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    held = source.current()
    assert (held.access_key, held.session_token, source.current() is held) == ("ASIA1", "t", True)
    assert asked == ["pod's own"]
    assert "s" not in repr(held).removeprefix("Credentials(access_key='ASIA1', expires_at_s=")
    server.shutdown()
    server.server_close()


@settings(max_examples=60, deadline=None)
@given(
    key=st.text("abcXYZ019 ä/-_.~+=&()'!", min_size=1, max_size=30),
    query=st.dictionaries(
        st.sampled_from(["prefix", "uploadId", "partNumber", "uploads"]), st.text("ab /+=ä", max_size=8)
    ),
    token=st.sampled_from(["", "session+token/=="]),
)
def test_signatures_are_those_of_botocore(key: str, query: dict[str, str], token: str) -> None:
    from urllib.parse import quote, urlencode

    url = object_url("", "made-up-bucket", REGION, key) + (f"?{urlencode(query, quote_via=quote)}" if query else "")
    stamp = "20261201T034500Z"
    headers = {"x-amz-checksum-sha256": "abc="}
    ours = signed_headers("PUT", url, headers, EMPTY_SHA256, REGION, Credentials("AKIA", "secret", token), stamp)
    request: Any = AWSRequest("PUT", url, headers={**headers, "x-amz-content-sha256": EMPTY_SHA256})
    request.context.update({"timestamp": stamp, "payload_signing_enabled": True})
    signer: Any = S3SigV4Auth(BotocoreCredentials("AKIA", "secret", token or None), "s3", REGION)
    request.headers["X-Amz-Date"] = stamp
    if token:
        request.headers["X-Amz-Security-Token"] = token
    theirs = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert ours["Authorization"].endswith(f"Signature={theirs}")
    assert "secret" not in ours["Authorization"]


def test_a_bucket_with_dots_is_addressed_so_that_the_certificate_fits() -> None:
    assert object_url("", "a.b", REGION, "k/x y") == "https://s3.us-east-2.amazonaws.com/a.b/k/x%20y"
    assert object_url("", "ab", REGION, "k") == "https://ab.s3.us-east-2.amazonaws.com/k"

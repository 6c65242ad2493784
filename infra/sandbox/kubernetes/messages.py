"""What comes in over HTTP and what goes out, apart from sockets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from infra.sandbox.kubernetes.refusals import bad_request

Object = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request: `path` without the query, `parts` of it unquoted, `query` with the last value of each name."""

    method: str
    path: str
    parts: Sequence[str]
    query: Mapping[str, str]
    content_type: str
    body: bytes
    raw_query: str = ""

    def parsed_body(self) -> Any:
        """The JSON or YAML of the body; None for an empty one. Raises a 400 Refusal for what cannot be read."""
        if not self.body.strip():
            return None
        try:
            return yaml.safe_load(self.body) if "yaml" in self.content_type else json.loads(self.body)
        except (ValueError, yaml.YAMLError) as error:
            message = f"the object provided is unrecognized (must be of type JSON or YAML): {error}"
            raise bad_request(message) from None

    def object_body(self) -> Object:
        """The body as an object. Raises a 400 Refusal for anything else."""
        parsed: object = self.parsed_body()
        if not isinstance(parsed, dict):
            raise bad_request("the object provided is unrecognized (must be of type JSON or YAML)")
        return cast("Object", parsed)


@dataclass(frozen=True)
class Answer:
    """One answer: a JSON object in `json`, else bytes in `body`, else a stream of JSON objects in `stream`."""

    code: int
    json: Object | None = None
    body: bytes = b""
    content_type: str = "application/json"
    stream: Iterator[Object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        """The body's bytes, for all answers but streams."""
        return self.body if self.json is None else json.dumps(self.json).encode()


def text(body: str) -> Answer:
    """A plain text page."""
    return Answer(200, body=body.encode(), content_type="text/plain; charset=utf-8")

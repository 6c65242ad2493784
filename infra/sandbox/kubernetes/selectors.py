"""Label and field selectors, as text in a URL and as objects in a specification."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.refusals import bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
ObjectTest = Callable[[Mapping[str, Any]], bool]

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"(?P<key>{_NAME})\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(rf"(?P<key>{_NAME})\s*(?P<operator>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)")
_EXISTS = re.compile(rf"(?P<negation>!?)\s*(?P<key>{_NAME})")


def label_selector(text: str) -> LabelTest:
    """The test that `app in (vllm),tier!=test,!canary` means. Raises a 400 Refusal for what cannot be read."""
    tests = [_label_requirement(part.strip(), text) for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _label_requirement(part: str, whole: str) -> LabelTest:
    if match := _SET.fullmatch(part):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUALITY.fullmatch(part):
        key, value = match["key"], match["value"]
        if match["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.fullmatch(part):
        key, wanted = match["key"], not match["negation"]
        return lambda labels: (key in labels) == wanted
    raise bad_request(f'unable to parse requirement: couldn\'t parse the selector string "{whole}"')


def field_selector(text: str) -> ObjectTest:
    """The test that `spec.nodeName=ip-10-0-1-5,status.phase!=Running` means."""
    requirements: list[tuple[str, bool, str]] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"([A-Za-z.]+)(==|=|!=)(.*)", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        requirements.append((match[1], match[2] != "!=", match[3]))
    return lambda obj: all((_field(obj, path) == value) == equal for path, equal, value in requirements)


def _field(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for name in path.split("."):
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def matches_labels(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object (matchLabels, matchExpressions) takes these labels; None takes nothing."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = child(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _expression(expression, labels) for expression in children(selector, "matchExpressions")
    )


def matches_node_terms(terms: Sequence[Mapping[str, Any]], node: Mapping[str, Any]) -> bool:
    """Whether any NodeSelectorTerm takes the node; an empty term takes none."""
    labels: Mapping[str, str] = child(node["metadata"], "labels")
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in terms:
        expressions: Sequence[Mapping[str, Any]] = children(term, "matchExpressions")
        field_expressions: Sequence[Mapping[str, Any]] = children(term, "matchFields")
        if not expressions and not field_expressions:
            continue
        if all(_expression(item, labels) for item in expressions) and all(
            _expression(item, fields) for item in field_expressions
        ):
            return True
    return False


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = children(expression, "values")
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                left, right = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
        case _:
            return False

"""Writes docs/troubleshooting.md out of the doctor's own data: `python -m tests.serving.diagnosis.troubleshooting_page`."""

from itertools import groupby
from pathlib import Path

from serving.diagnosis.catalogue import Cause, log_causes
from serving.diagnosis.checks import Check, checks

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
_HEAD = """\
# Troubleshooting

What `dormouse doctor` knows, written out of its own data (`serving/data/diagnoses`, `serving/data/checks`); a test keeps
this page equal to it. Words in *italics* stand for what your log, manifest or command says there.

```sh
dormouse doctor --stack dev                       # a live stack: states, events, logs, failed launches, metrics, manifests
kubectl logs vllm-0 --previous | dormouse doctor -
dormouse doctor deployment.yaml
echo 'vllm serve moonshotai/Kimi-K2.5 -tp 4' | dormouse doctor - --machine 4xH200
dormouse doctor --slow http://127.0.0.1:8000/metrics
dormouse doctor --bad-answers exchange.json
```

It reads a log, Kubernetes manifests, a `vllm serve` command line, a metrics page, or a request with its answer, and tells
which it took it for. Every finding has its evidence (a line or a field), a cause, a remedy and how sure it is. Where the
log names a model that is known, the remedy carries the planner's numbers. Nothing leaves your machine.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for subject, entries in groupby([*log_causes(), *checks().values()], key=lambda one: one.subject):
        parts.append(f"\n## {subject}\n")
        parts += [_entry(entry) for entry in entries]
    return "".join(parts)


def _entry(entry: Cause | Check) -> str:
    sure = "" if entry.confidence == "certain" else f" It is {entry.confidence}, not certain."
    return (
        f"\n### {entry.id}\n\n**{entry.title}.** {_words(entry.cause)}{sure}\n\n{_words(entry.remedy)}\n\n"
        f"<sub>{_plain(entry.source)}</sub>\n"
    )


def _words(text: str) -> str:
    """A sentence whose {groups} stand in italics."""
    escaped = text.replace("{{", "\0").replace("}}", "\1")
    return escaped.replace("{", "*").replace("}", "*").replace("\0", "{").replace("\1", "}")


def _plain(text: str) -> str:
    return text.replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

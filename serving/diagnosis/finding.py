"""What the doctor finds."""

from dataclasses import dataclass
from typing import Any, Literal

Confidence = Literal["certain", "likely", "possible"]
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Evidence:
    """Where it shows.

    - `place`: a line (`line 214`), a field (`spec.template.spec.containers[0].args[3]`), a metric or a flag.
    - `text`: what stands there, shortened to some 300 characters.
    """

    place: str
    text: str


@dataclass(frozen=True)
class Finding:
    """One cause found in one input.

    - `cause_id`: stable; the anchor in the troubleshooting page.
    - `cause`, `remedy`: sentences; the remedy says what to do, with numbers where they can be computed.
    - `repeats`: how often the same thing shows.
    """

    cause_id: str
    title: str
    cause: str
    remedy: str
    evidence: Evidence
    confidence: Confidence = "certain"
    severity: Severity = "error"
    repeats: int = 1

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON, in camelCase."""
        return {
            "cause": self.cause_id,
            "title": self.title,
            "severity": self.severity,
            "confidence": self.confidence,
            "explanation": self.cause,
            "remedy": self.remedy,
            "evidence": {"place": self.evidence.place, "text": self.evidence.text},
            "repeats": self.repeats,
        }

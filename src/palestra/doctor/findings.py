"""Findings of the doctor: one for each cause, always with the same parts and layers.

- *symptom*: what was observed, with numbers. *evidence*: quoted lines that show it, with their
  file and line. *likely cause*: the reason, as far as known. *next action*: what to do; a user
  who follows it no longer gets the finding.
- *cause id*: `layer.what`, such as `infra.disk-full`. Tests, scripts and the signature table use
  this id. It is part of the interface; the sentences are not.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palestra.causes import LAYERS, Severity
from palestra.errors import Layer, RowIdentity
from palestra.schema import JsonDict

if TYPE_CHECKING:
    from rich.text import Text

LONGEST_QUOTE: Final = 500
_STEMS: Final[Mapping[Layer, str]] = {
    Layer.INFRA: "infra",
    Layer.MODEL: "model",
    Layer.CONFIG: "config",
    Layer.DATA: "data",
    Layer.VERIFIER: "verifier",
    Layer.CACHE: "cache",
    Layer.THROUGHPUT: "throughput",
}
_CAUSE: Final = re.compile(r"([a-z]+)\.[a-z0-9]+(-[a-z0-9]+)*")


def cause_id(layer: Layer, what: str) -> str:
    """Return a cause id such as `infra.disk-full`, from a layer and the problem `what`."""
    return f"{_STEMS[layer]}.{what}"


@dataclass(frozen=True, slots=True)
class Quote:
    """One piece of evidence: the original text and its location.

    `source`: a file or another source (a URL, a command, a server). `line`: the line number from 1,
    if there are lines. `pointer`: a JSON pointer, or a configuration key, to the wrong part.
    """

    source: str
    text: str
    line: int | None = None
    pointer: str = ""

    @property
    def where(self) -> str:
        """The location as text: `rows.jsonl:17 /responses_create_params/input`."""
        location = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{location} {self.pointer}".rstrip()


def quote(source: Path | str, text: str, *, line: int | None = None, pointer: str = "") -> Quote:
    """Return a quote of at most `LONGEST_QUOTE` characters; the middle of a longer text is left
    out.
    """
    half = LONGEST_QUOTE // 2
    shortened = text if len(text) <= LONGEST_QUOTE else f"{text[:half]} … {text[-half:]}"
    return Quote(str(source), shortened.strip("\r\n"), line, pointer)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that was found. Raises ValueError: the cause id does not belong to the layer."""

    layer: Layer
    cause: str
    symptom: str
    likely_cause: str
    next_action: str
    evidence: tuple[Quote, ...] = ()
    row: RowIdentity | None = None
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        match = _CAUSE.fullmatch(self.cause)
        if match is None or match[1] != _STEMS[self.layer]:
            raise ValueError(
                f"cause {self.cause!r} should be {_STEMS[self.layer]}.some-words, as its layer is "
                f"{self.layer.value!r}"
            )

    def masked(self, mask: Callable[[str], str]) -> "Finding":
        """Return a copy with `mask` applied to all texts."""
        return replace(
            self,
            symptom=mask(self.symptom),
            likely_cause=mask(self.likely_cause),
            next_action=mask(self.next_action),
            evidence=tuple(
                replace(q, source=mask(q.source), text=mask(q.text), pointer=mask(q.pointer))
                for q in self.evidence
            ),
        )

    def as_json(self) -> JsonDict:
        """Return the finding as a JSON object for `--json`."""
        return {
            "layer": self.layer.value,
            "cause": self.cause,
            "severity": self.severity.value,
            "symptom": self.symptom,
            "evidence": [
                {"source": q.source, "line": q.line, "pointer": q.pointer, "text": q.text}
                for q in self.evidence
            ],
            "row": None if self.row is None else _row_as_json(self.row),
            "likely_cause": self.likely_cause,
            "next_action": self.next_action,
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: errors first, then by layer from the lowest up; otherwise the order is kept."""
    severities = tuple(Severity)
    return tuple(
        sorted(findings, key=lambda f: (severities.index(f.severity), LAYERS.index(f.layer)))
    )


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether a command with these findings exits 1."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def text_of(finding: Finding, *, visible: Callable[[str], str] = str) -> "Text":
    """Return the finding as rich text for people. Its `.plain` is for files.

    `visible` makes texts from other sources safe to print.
    """
    from rich.text import Text

    style = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
    text = Text()
    text.append(finding.severity.value, style=style[finding.severity])
    text.append(f" {finding.layer.value}", style="bold")
    text.append(f" ({finding.cause})", style="dim")
    # The row stands in the line that says what became of it: one line to search for and to pass on.
    row = "" if finding.row is None else f"{visible(row_text(finding.row))}: "
    text.append(f": {row}{visible(_one_line(finding.symptom))}")
    for label, lines in _parts(finding):
        for line in lines:
            text.append(f"\n  {label:<6}", style="dim")
            text.append(visible(line))
    return text


def five_parts(finding: Finding, *, visible: Callable[[str], str] = str) -> str:
    """Return the finding as text with the five labels of NeMo Gym's debugging guide.

    The first line has the severity and the cause id.
    """
    row = "" if finding.row is None else f"{row_text(finding.row)}: "
    quotes = [_one_line(": ".join(filter(None, (q.where, q.text)))) for q in finding.evidence]
    parts = (
        ("observed symptom", [f"{row}{_one_line(finding.symptom)}"]),
        ("failing layer", [finding.layer.value]),
        ("evidence", quotes or ["none quoted"]),
        ("likely cause", [finding.likely_cause or "not known"]),
        ("next concrete action", [finding.next_action or "none"]),
    )
    lines = [f"{finding.severity.value} ({finding.cause})"]
    lines += [f"  {label}: {visible(text)}" for label, texts in parts for text in texts]
    return "\n".join(lines)


def _parts(finding: Finding) -> Sequence[tuple[str, Sequence[str]]]:
    quotes = [_one_line(": ".join(filter(None, (q.where, q.text)))) for q in finding.evidence]
    return (
        ("seen", quotes),
        ("why", [finding.likely_cause] if finding.likely_cause else []),
        ("do", [finding.next_action] if finding.next_action else []),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def row_text(row: RowIdentity) -> str:
    """Return a row's identity as text: `task 3, rollout 1, attempt 2, agent x`."""
    return ", ".join(f"{name} {value}" for name, value in _row_as_json(row).items())


def _row_as_json(row: RowIdentity) -> JsonDict:
    fields = {
        "task": row.task,
        "rollout": row.rollout,
        # Before a run there is no attempt yet.
        "attempt": None if row.rollout is None else row.attempt,
        "agent": row.agent,
        "run": row.run,
    }
    return {name: value for name, value in fields.items() if value not in {None, ""}}

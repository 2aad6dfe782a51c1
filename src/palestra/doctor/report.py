"""The report of an examination: checks by layer, findings, forecast."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palestra.causes import LAYERS, Severity
from palestra.doctor.checking import CheckRun
from palestra.doctor.findings import Finding, has_errors, in_order, text_of
from palestra.doctor.forecast import Forecast
from palestra.schema import JsonDict

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an examination. `complete`: every check could be run."""

    checks: tuple[CheckRun, ...]
    findings: tuple[Finding, ...]
    forecast: Forecast | None = None
    seconds: float = 0.0
    complete: bool = True

    @property
    def failed(self) -> bool:
        """Whether the run would fail or give results that cannot be trusted."""
        return has_errors(self.findings)

    def masked(self, mask: Callable[[str], str]) -> "Report":
        """Return a copy with `mask` applied to all findings and check summaries."""
        from dataclasses import replace

        checks = tuple(
            replace(run, looked=replace(run.looked, said=mask(run.looked.said)))
            for run in self.checks
        )
        masked_findings = tuple(finding.masked(mask) for finding in self.findings)
        return replace(self, checks=checks, findings=masked_findings)

    def with_advice(self, rewrite: Callable[[str], str]) -> "Report":
        """Return a copy with `rewrite` applied to all that says what to do."""
        from dataclasses import replace

        findings = (
            replace(finding, next_action=rewrite(finding.next_action)) for finding in self.findings
        )
        return replace(self, findings=tuple(findings))

    def as_json(self) -> JsonDict:
        """Return the report as a JSON object for `--json`."""
        return {
            "errors": self._count(Severity.ERROR),
            "warnings": self._count(Severity.WARNING),
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
            "findings": [finding.as_json() for finding in in_order(self.findings)],
            "checks": [
                {
                    "layer": run.layer.value,
                    "name": run.name,
                    "result": _result(run),
                    "said": run.looked.said,
                    "seconds": round(run.seconds, 3),
                }
                for run in self._in_order()
            ],
            "forecast": None if self.forecast is None else self.forecast.as_json(),
        }

    def texts(self, *, visible: Callable[[str], str] = str) -> list["Text"]:
        """Return the report as paragraphs for people: the checks, the findings, the forecast, the
        verdict.
        """
        from rich.text import Text

        texts = [Text("\n").join(_line(run, visible) for run in self._in_order())]
        texts += [text_of(finding, visible=visible) for finding in in_order(self.findings)]
        if self.forecast is not None:
            texts.append(Text(visible("\n".join(self.forecast.lines()))))
        return [*texts, Text(self.verdict(), style="bold red" if self.failed else "bold green")]

    def verdict(self) -> str:
        """Return the last line of the report: the numbers of errors, warnings and checks."""
        errors, warnings = self._count(Severity.ERROR), self._count(Severity.WARNING)
        unfinished = "" if self.complete else " The checks that need what failed were not made."
        return (
            f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}; "
            f"{_plural(len(self.checks), 'check')} in {self.seconds:.1f} s.{unfinished}"
        )

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    def _in_order(self) -> list[CheckRun]:
        return sorted(self.checks, key=lambda run: LAYERS.index(run.layer))


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _result(run: CheckRun) -> str:
    severities = {finding.severity for finding in run.looked.findings}
    if Severity.ERROR in severities:
        return "error"
    if Severity.WARNING in severities:
        return "warning"
    return "skipped" if run.looked.skipped else "ok"


def _line(run: CheckRun, visible: Callable[[str], str]) -> "Text":
    from rich.text import Text

    result = _result(run)
    style = {"error": "bold red", "warning": "yellow", "skipped": "dim", "ok": "green"}[result]
    # A check and its findings are one problem: both lines name it by the same cause.
    causes = ", ".join(dict.fromkeys(finding.cause for finding in run.looked.findings))
    return Text.assemble(
        (f"{result:<8}", style),
        f"{run.layer.value:<21}",
        f"{run.name}: {visible(run.looked.said)}",
        (f" ({causes})" if causes else "", "dim"),
    )

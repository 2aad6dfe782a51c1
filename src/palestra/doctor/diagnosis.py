"""The result of `palestra diagnose` for one run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path

from palestra.doctor.findings import Finding, Quote, five_parts
from palestra.doctor.outputs import RowCounts
from palestra.schema import JsonDict, RunPaths


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a diagnosis. `findings`: the likely causes first."""

    run: str
    findings: tuple[Finding, ...]
    counts: Mapping[str, RowCounts]
    """For each output file, the counts of its rows."""
    consequences: tuple[str, ...] = ()
    """Problems that are consequences of the findings."""
    unknown: tuple[Quote, ...] = ()
    """Lines that look like errors and match no entry of the table."""
    looked_at: tuple[str, ...] = ()
    noise: int = 0
    """The number of ignored lines of shutdown noise."""
    whole: bool = False
    """Whether every requested rollout was scored, according to the files that were found."""

    def masked(self, mask: Callable[[str], str]) -> "Diagnosis":
        """Return a copy with `mask` applied to all texts."""
        return replace(
            self,
            counts={
                output: replace(counts, what_helps=mask(counts.what_helps))
                for output, counts in self.counts.items()
            },
            findings=tuple(finding.masked(mask) for finding in self.findings),
            consequences=tuple(map(mask, self.consequences)),
            unknown=tuple(replace(quote, text=mask(quote.text)) for quote in self.unknown),
        )

    def with_advice(
        self, advice_about: Callable[[Sequence[str]], Callable[[str], str]]
    ) -> "Diagnosis":
        """Return a copy in which all that says what to do is completed. `advice_about`: returns what
        completes advice about the run with some of the output files; with none when none was found.
        """
        return replace(
            self,
            counts={
                output: replace(counts, what_helps=advice_about([output])(counts.what_helps))
                for output, counts in self.counts.items()
            },
            findings=tuple(
                replace(
                    finding,
                    next_action=advice_about(self._outputs_of(finding))(finding.next_action),
                )
                for finding in self.findings
            ),
        )

    def _outputs_of(self, finding: Finding) -> Sequence[str]:
        """Return the outputs of the runs whose files a finding quotes; all when it quotes none."""
        sources = {Path(quoted.source) for quoted in finding.evidence}
        quoted_outputs = [
            output
            for output in self.counts
            if not sources.isdisjoint(RunPaths(Path(output)).recorded())
        ]
        return quoted_outputs or list(self.counts)

    def __repr__(self) -> str:
        """Return one line: the run and the causes."""
        causes = ", ".join(finding.cause for finding in self.findings) or "nothing found"
        return f"<Diagnosis of {self.run}: {causes}>"

    def _repr_html_(self) -> str:
        texts = [five_parts(finding) for finding in self.findings] or ["Nothing is wrong."]
        return "".join(f"<pre>{escape(text)}</pre>" for text in texts)

    def to_dict(self) -> JsonDict:
        """Return the diagnosis as JSON values."""
        return self.as_json()

    def as_json(self) -> JsonDict:
        """Return the diagnosis as the JSON object for `--json`."""
        return {
            "run": self.run,
            "counts": {output: asdict(counts) for output, counts in self.counts.items()},
            "findings": [finding.as_json() for finding in self.findings],
            "consequences": list(self.consequences),
            "unknown": [
                {"source": q.source, "line": q.line, "pointer": q.pointer, "text": q.text}
                for q in self.unknown
            ],
            "looked_at": list(self.looked_at),
            "noise": self.noise,
        }

"""What `diagnose` has to say of one run."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from palestra.doctor.findings import Finding, Quote
from palestra.doctor.outputs import RowCounts
from palestra.schema import JsonDict


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a run. `findings`: the likely causes first."""

    run: str
    findings: tuple[Finding, ...]
    counts: Mapping[str, RowCounts]
    """Output -> how many of what is there."""
    consequences: tuple[str, ...] = ()
    """What follows from the findings."""
    unknown: tuple[Quote, ...] = ()
    """What looks like an error and fits no entry of the table."""
    looked_at: tuple[str, ...] = ()
    noise: int = 0
    """Lines of shutdown noise that were passed over."""
    whole: bool = False
    """Every rollout that was asked for has been scored, as far as files of a run are known."""

    def masked(self, mask: Callable[[str], str]) -> "Diagnosis":
        """The same with `mask` over all that it quotes."""
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

    def as_json(self) -> JsonDict:
        """As `--json` shows it."""
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

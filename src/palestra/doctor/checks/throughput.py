"""Throughput: what would make the run slow, or have its rollouts end before they are done."""

from palestra.doctor.checking import Looked
from palestra.doctor.findings import quote
from palestra.doctor.forecast import Share
from palestra.doctor.tabled import tabled
from palestra.rollouts import CollectSettings


def check_answers_in_time(shares: list[Share], settings: CollectSettings) -> Looked:
    """Whether an answer of full length fits into the time of a rollout, at the measured pace."""
    findings = []
    known = [(s, s.pace, s.rows.most_output) for s in shares if s.pace is not None]
    for share, pace, most in known:
        if most is None or (took := pace.seconds_for(most)) <= settings.rollout_timeout:
            continue
        findings.append(
            tabled(
                "throughput.rollout-timeout",
                f"an answer of {most:,} tokens takes {share.model} about {took:,.0f} s, "
                f"and a rollout has {settings.rollout_timeout:,.0f}",
                quote(share.model, f"{pace.output_tokens} tokens in {pace.seconds:.2f} s"),
                seconds=f"{2 * took:.0f}",
            )
        )
    if not known:
        return Looked("no pace was measured", skipped=True)
    return Looked(
        "full-length answers fit into a rollout's time" * (not findings) or "too slow",
        tuple(findings),
    )

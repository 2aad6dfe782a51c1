"""`diagnose`: read the files of a run, and explain what went wrong."""

from palestra import api
from palestra.cli.console import say, say_json
from palestra.cli.escaping import visible
from palestra.doctor import Diagnosis, RowCounts, five_parts, has_errors
from palestra.settings import DiagnoseArgs


def diagnose(args: DiagnoseArgs) -> int:
    """Print the diagnosis of a run; exit 1 when something is wrong."""
    diagnosis = api.diagnose(args.run, inputs=args.inputs, logs=args.logs)
    if args.as_json:
        say_json(diagnosis.to_dict())
    else:
        show(diagnosis)
    # Of a run that is whole, what its log says beside it was overcome.
    unexplained = bool(diagnosis.unknown) and not diagnosis.findings and not diagnosis.whole
    return 1 if has_errors(diagnosis.findings) or unexplained else 0


def show(diagnosis: Diagnosis) -> None:
    """Print a diagnosis as text for people."""
    for output, counts in diagnosis.counts.items():
        say(f"{output}: {_counted(counts)}")
        if counts.what_helps:
            say(visible(f"what helps: {counts.what_helps}"))
    for finding in diagnosis.findings:
        say(five_parts(finding, visible=visible))
    if diagnosis.consequences:
        say("follows from that:")
        for sentence in diagnosis.consequences:
            say(f"  {sentence}")
    if diagnosis.unknown:
        say("unknown: this looks like an error, but no known cause matches it")
        for quote in diagnosis.unknown:
            say(f"  seen  {quote.where}: {quote.text}")
    elif not diagnosis.findings:
        say("no problem was found")
    noise = f"; passed over {diagnosis.noise} lines of shutdown noise" if diagnosis.noise else ""
    say(f"looked at: {', '.join(diagnosis.looked_at) or 'nothing'}{noise}")


def _counted(counts: RowCounts) -> str:
    requested = counts.inputs if counts.requested is None else counts.requested
    count_texts = [
        f"requested {requested}" if requested else "requested: not known (there is no manifest)",
        f"scored {counts.scored}" + (f" ({counts.truncated} truncated)" * (counts.truncated > 0)),
        f"failed {counts.failed} (in {counts.failed_attempts} attempts)",
    ]
    missing = "not ended yet" if counts.running else "missing"
    count_texts += [f"{missing} {counts.missing}"] * (counts.missing > 0)
    count_texts += [f"profile rows {counts.profile_rows}"] * (counts.profile_rows > 0)
    return ", ".join(count_texts)

"""`show`: a component, a run, or one rollout of a run."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from palestra import api
from palestra.analysis import Entry, advice_about, amount, load_run, run_head, summarize
from palestra.api import ComponentDetails, FailureGroup, RolloutRecord
from palestra.cli.console import notice, say, say_json, warn_all
from palestra.cli.listing import mean_text, started_text, state_text
from palestra.cli.paging import paged
from palestra.cli.profiling_commands import doubts, show_summary, what_to_look_at
from palestra.cli.tables import MOST_MESSAGES, plain_console, print_table
from palestra.cli.transcripts import print_entries, print_fields, print_heading, print_tools
from palestra.config import MASK
from palestra.errors import ConfigError, InputDataError, PalestraError
from palestra.schema import CREATE_PARAMS, JUDGE_EVALUATIONS, RunPaths
from palestra.settings import ShowArgs
from palestra.system import shown

_OUTPUT: Final = frozenset({"--output", "-o"})
_ROLLOUT: Final = "TASK:ROLLOUT"
_RUN_ENDINGS: Final = (".jsonl", ".gz", ".zst", ".json", ".html")


def show(args: ShowArgs) -> int:
    """Show what the first argument names: the files of a run, else a component."""
    with nullcontext() if args.as_json else paged():
        if _is_run(args):
            _show_run(args)
        else:
            _show_component(args)
    return 0


def _is_run(args: ShowArgs) -> bool:
    """Whether the arguments are about a run. Raises ConfigError: they are about both."""
    of_component = [
        flag
        for flag, is_given in (("--config", args.config), ("--row", args.row is not None))
        if is_given
    ]
    path = Path(args.subject)
    is_path = path.suffix in _RUN_ENDINGS or (path.is_dir() and _has_run(path))
    is_run = (
        args.rollout is not None
        or is_path
        or (bool(path.name) and RunPaths(path.with_suffix(".jsonl")).manifest.is_file())
    )
    if is_run and of_component:
        raise ConfigError(
            f"{of_component[0]} is for a component, and {args.subject} is a run",
            hint=f"palestra show {args.subject} {_a_rollout(args.subject)} shows one rollout",
        )
    return is_run


def _has_run(folder: Path) -> bool:
    return next(folder.rglob("*_manifest.json"), None) is not None


# A component


def _show_component(args: ShowArgs) -> None:
    details = api.component_details(args.subject, row=args.row)
    if args.as_json:
        say_json(details.to_dict())
    elif args.config:
        if not details.config:
            raise ConfigError(
                f"{args.subject} has no config file",
                hint="a one-file environment needs none"
                if args.subject.endswith(".py")
                else f"palestra init {args.subject} --config-only writes one",
            )
        say(details.config.rstrip())
    elif args.row is not None:
        _show_example(details)
    else:
        _show_details(details)


def _show_details(details: ComponentDetails) -> None:
    summary = details.summary
    facts = {
        "kind": summary.kind.removesuffix("s"),
        "domain": summary.domain,
        "turns": summary.turns,
        "rows": "any number, made on demand" if summary.makes_rows else summary.rows,
        "needs": ", ".join(summary.needs),
        "licences": ", ".join(summary.licences),
        "path": shown(summary.path),
    }
    say(f"{summary.name}: {summary.description}" if summary.description else summary.name)
    print_fields({name: value for name, value in facts.items() if value not in (None, "")})
    if details.readme:
        print_heading("README")
        _print_markdown(details.readme)
    if details.settings:
        print_table(
            ("setting", "value", "type", "meaning"),
            [(s.name, s.value, s.type, s.meaning) for s in details.settings],
            title="settings:",
            spare="type",
        )
    _show_example(details)
    print_heading("run it")
    for command in details.commands:
        say(f"  {command}")
    for text in details.notices:
        notice(f"warning: {text}")


def _print_markdown(text: str) -> None:
    """Print a README: formatted on a terminal, else as it is."""
    console = plain_console()
    if not console.is_terminal:
        say(text.rstrip())
        return
    from rich.markdown import Markdown

    console.print(Markdown(text, hyperlinks=False))


def _show_example(details: ComponentDetails) -> None:
    example = details.example
    if example is None:
        return
    print_heading(f"row {example.number} of {shown(example.source)}, as the model sees it")
    print_entries(example.prompt)
    if example.tools:
        print_heading("tools that it offers")
        print_tools(example.tools)
    fields = {name: value for name, value in example.row.items() if name != CREATE_PARAMS}
    if fields:
        print_heading("other fields of the row")
        print_fields(fields)
    if details.summary.turns == "multi":
        notice("the environment may add messages of its own when a rollout starts")


# A run


def _show_run(args: ShowArgs) -> None:
    outputs = _outputs(args.subject)
    if args.rollout is not None:
        record = api.rollout_record(outputs, *api.rollout_key(args.rollout))
        record = record.masked(api.secret_mask())
        if args.as_json:
            say_json(record.to_dict())
        else:
            show_rollout(record, args.subject)
    else:
        _show_summary(args, outputs)


def _outputs(subject: str) -> list[Path]:
    """Return the outputs of a run. Raises InputDataError, with the nearest run: there is none."""
    try:
        return api.outputs_of(subject)
    except InputDataError:
        below = api.RUNS_FOLDER / subject
        if not Path(subject).exists() and below.exists():
            return api.outputs_of(below)
        raise


def _a_rollout(subject: str) -> str:
    """Return the first rollout of a run; how one is written when the run has none."""
    with suppress(PalestraError):
        return api.first_rollout(_outputs(subject)) or _ROLLOUT
    return _ROLLOUT


def _show_summary(args: ShowArgs, outputs: Sequence[Path]) -> None:
    entry = api.run_entry(args.subject if Path(args.subject).exists() else outputs[0])
    mask = api.secret_mask()
    groups = [replace(g, message=mask(g.message)) for g in api.failure_groups(outputs)]
    if args.as_json:
        run = api.open_run(args.subject if Path(args.subject).exists() else outputs[0])
        failures = [asdict(group) for group in groups]
        say_json({**run.to_dict(), "state": entry.state, "failures": failures})
        return
    say(f"{entry.environment or shown(entry.path)} with {entry.model or 'an unknown model'}")
    report = RunPaths(outputs[0]).report
    print_fields(
        {
            "state": state_text(entry),
            "rollouts": f"{entry.requested} requested, {entry.scored} scored, {entry.failed} failed",
            "mean reward": mean_text(entry),
            "started": started_text(entry),
            "path": shown(entry.path),
            **({"tasks chosen from": entry.selected_from} if entry.selected_from else {}),
            **({"report": shown(report)} if report.is_file() else {}),
        }
    )
    if entry.state is api.RunState.STOPPED and not entry.problem:
        notice(how_to_resume(outputs))
    if entry.problem:
        notice(f"warning: {entry.problem}")
    line = f"one rollout: palestra show {args.subject} {_a_rollout(args.subject)}"
    try:
        rollouts = [path for path in outputs if path.is_file() and path.stat().st_size]
        if rollouts:
            summary = summarize(load_run(None, rollouts, allow_partial=True))
            show_summary(summary, by_family=False)
            line = what_to_look_at(summary, args.subject) or line
            warn_all(doubts(summary, args.subject))
    except PalestraError as error:
        notice(f"warning: {error.message}")
        if error.hint:
            notice(f"hint: {error.hint}")
    _show_failures(groups)
    if groups:
        key = f"{groups[0].task}:{groups[0].rollout}"
        notice(f"one of them: palestra show {args.subject} {key}")
    elif entry.scored:
        notice(line)


def how_to_resume(outputs: Sequence[Path]) -> str:
    """Return how a run that stopped goes on: its own command, where it is one of `palestra` that can
    be repeated as it was recorded.
    """
    advice = advice_about(outputs)("the command that collected the run, with --resume, goes on")
    command = run_head(outputs).command
    if len(outputs) != 1 or not command.startswith("palestra ") or MASK in command:
        return advice
    words = [word for word in shlex.split(command) if word not in {"--overwrite", "--resume"}]
    has_output = any(word in _OUTPUT or word.startswith("--output=") for word in words)
    options = [] if has_output else ["--output", shown(outputs[0])]
    return f"{advice}: {shlex.join([*words, *options, '--resume'])}"


def _show_failures(groups: Sequence[FailureGroup]) -> None:
    if groups:
        print_table(
            ("failures", "class", "first", "message"),
            [
                row
                for _, of_class in groupby(groups, key=lambda group: group.failure_class)
                for row in _failure_rows(list(of_class))
            ],
            right="failures,first",
        )


def _failure_rows(groups: Sequence[FailureGroup]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the table's rows of one class: its most frequent messages, and a count of the others."""
    for group in groups[:MOST_MESSAGES]:
        yield group.count, group.failure_class, f"{group.task}:{group.rollout}", group.message
    others = groups[MOST_MESSAGES:]
    if others:
        first = f"{others[0].task}:{others[0].rollout}"
        rollouts = sum(group.count for group in others)
        text = f"and {amount(len(others), 'other message')}"
        yield rollouts, others[0].failure_class, first, text


def show_rollout(record: RolloutRecord, subject: str) -> None:
    """Print one rollout: its reward, its conversation, its failed attempts."""
    reward = "" if record.reward is None else f", reward {record.reward:g}"
    say(f"task {record.task}, rollout {record.rollout} of {subject}: {record.outcome}{reward}")
    if record.components:
        print_heading("reward components")
        print_fields(record.components)
    print_heading("prompt")
    print_entries(record.prompt)
    if record.tools:
        print_heading("tools that were offered")
        print_tools(record.tools)
    if record.transcript:
        print_heading("transcript" if record.result is not None else "answer that was kept")
        print_entries(record.transcript)
    judged = record.judged
    reported = {k: v for k, v in record.reported.items() if k != JUDGE_EVALUATIONS or not judged}
    if reported:
        print_heading("what the verifier reports")
        print_fields(reported)
    for number, exchange in enumerate(judged, start=1):
        verdict = f": {exchange.verdict}" if exchange.verdict else ""
        print_heading(f"judge, question {number} of {len(judged)}{verdict}")
        print_entries([*exchange.question, *exchange.reply])
    for attempt in record.attempts:
        print_heading(f"attempt {attempt.number} failed: {attempt.failure_class}")
        fields = {
            "layer": attempt.layer,
            "message": attempt.message,
            "at": " -> ".join(attempt.traceback.splitlines()),
            "passed through": " -> ".join(attempt.hops),
            "hint": attempt.hint,
        }
        print_fields({name: value for name, value in fields.items() if value})
        if attempt.judge_question:
            print_entries([Entry("asked the judge", "", attempt.judge_question)])
    if record.remedy:
        print_heading("what helps")
        say(f"  {record.remedy}")

"""Writes the report: first the numbers from the frame, then as many transcripts as fit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from palestra.analysis.advice import advice_about
from palestra.analysis.frame import RunFrame
from palestra.analysis.report import overview
from palestra.analysis.report.failures import FailedRollout, failures_table, read_failures
from palestra.analysis.report.figures import figures
from palestra.analysis.report.heading import run_facts
from palestra.analysis.report.markup import amount, data_block
from palestra.analysis.report.page import Contents, after_transcripts, before_transcripts
from palestra.analysis.report.rows import (
    ALL_ROLLOUTS,
    PROMPT_FIELDS,
    ChosenRollout,
    failures_by_task,
    materialized_rows,
    plan,
    rollout_rows,
)
from palestra.analysis.report.statements import report_values
from palestra.analysis.report.tasks import (
    by_interest,
    shown_tasks,
    table_data,
    task_columns,
    task_lists,
)
from palestra.analysis.report.transcript import (
    ENTRY_CHARACTERS,
    TRANSCRIPT_CHARACTERS,
    Said,
    offered_tools,
    prompt,
    question,
    result_fields,
    snippets,
    transcript,
)
from palestra.analysis.summary import RunSummary, summarize
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.analysis.writing import replacing
from palestra.metrics import FloatArray
from palestra.schema import JsonDict

MOST_BYTES = 20_000_000
"""The size limit of the report in bytes. Transcripts use what the numbers and the table leave free.
"""
ENDING_BYTES = 64_000
"""The number of bytes reserved for the script and the footer."""
TASKS_AT_ONCE = 500
"""The rows of so many tasks are in memory at once."""

Chosen = Mapping[int, Sequence[ChosenRollout]]


@dataclass(frozen=True, slots=True)
class _Transcripts:
    """What the page shows of single rollouts."""

    chosen: Chosen
    failures: Mapping[int, Sequence[FailedRollout]]
    """By task position."""
    prompts: Mapping[int, Said]
    is_whole: bool
    """Whether every rollout is chosen."""


def write_report(
    frame: RunFrame,
    path: Path | str,
    summary: RunSummary | None = None,
    *,
    most_bytes: int = MOST_BYTES,
) -> None:
    """Write the self-contained HTML report of a run. The same run always gives the same bytes, but for
    the paths in advice, which are written from the working directory.

    Reads the chosen rows of the inputs, the rollouts and the failures again. Raises InputDataError:
    a file changed since the run was loaded. If the numbers of a very large run exceed `most_bytes`,
    the report has no transcripts and is larger than `most_bytes`.
    """
    tasks = task_columns(frame)
    lists = task_lists(tasks, frame.rollouts) if len(frame.rollouts) else []
    interest = by_interest(tasks, lists)
    unscored = range(len(tasks), len(frame.requests.tasks))
    by_task = failures_by_task(frame)
    advice = advice_about(frame.rollout_places.files)
    failures = read_failures(frame, by_task, advice)
    # a failed rollout is what a report is opened for
    interest = list(dict.fromkeys([*by_task, *interest, *unscored]))
    positions = shown_tasks(len(interest), interest)
    listed = set(positions)
    is_whole = len(frame.requests) <= ALL_ROLLOUTS
    chosen = plan(frame.rollouts, (at for at in interest if at in listed), every_rollout=is_whole)
    lines, prompts = _prompts(frame, positions, chosen)
    summary = summary or summarize(frame)
    facts = run_facts(frame, summary)
    has_scores = len(frame.rollouts) > 0
    values = report_values(frame, summary, advice)
    contents = Contents(
        facts=facts,
        key_figures=overview.key_figures(values) if has_scores else None,
        solved_split=overview.solved_split(frame) if has_scores else None,
        findings=overview.findings(values),
        failures=failures_table(failures, len(frame.failed), advice),
        figures=figures(frame, values) if has_scores else [],
        components=overview.components(values),
        outcomes=overview.outcomes(values, summary.total.requested),
        groups=overview.groups(summary, binary=values.binary),
        grouped_by="agent" if frame.families is None else "family",
        lists=lists,
        tasks=tasks,
        task_count=len(frame.requests.tasks),
        table=table_data(frame, tasks, positions, lines),
    )
    failures_of: dict[int, list[FailedRollout]] = {}
    for failure in failures:
        failures_of.setdefault(failure.position, []).append(failure)
    _write(
        Path(path),
        contents,
        frame,
        _Transcripts(chosen, failures_of, prompts, is_whole),
        most_bytes,
    )


def _write(
    path: Path, contents: Contents, frame: RunFrame, transcripts: _Transcripts, most_bytes: int
) -> None:
    tools = _ToolSets()
    with replacing(path) as file:
        head = before_transcripts(contents)
        file.write(head)
        room = most_bytes - len(head) - ENDING_BYTES
        embedded = 0
        for block in _blocks(frame, transcripts, tools):
            room -= len(block)
            if room < 0:
                break
            file.write(block)
            embedded += 1
        left_out = _left_out(embedded, contents.task_count, transcripts, most_bytes)
        file.write(after_transcripts(left_out, tools.sets))


class _ToolSets:
    """Numbers the different sets of tools that the model was offered. Mostly there is one."""

    def __init__(self) -> None:
        self.sets: list[list[list[str]]] = []

    def number(self, tools: list[list[str]]) -> int | None:
        """Return the number of a set; None for the empty one."""
        if not tools:
            return None
        if tools not in self.sets:
            self.sets.append(tools)
        return self.sets.index(tools)


def _prompts(
    frame: RunFrame, positions: Sequence[int], chosen: Chosen
) -> tuple[list[str], dict[int, Said]]:
    """Return the prompt snippet of every shown task, and the whole prompt of every chosen task."""
    questions: dict[int, str] = {}
    prompts: dict[int, Said] = {}
    for at, row in materialized_rows(frame, positions, PROMPT_FIELDS):
        questions[at] = question(row)
        if at in chosen:
            prompts[at] = prompt(row)
    return snippets([questions[at] for at in positions]), prompts


def _blocks(frame: RunFrame, transcripts: _Transcripts, tools: _ToolSets) -> Iterator[bytes]:
    """Yield a data block for the page's script for each chosen task, in order of interest."""
    chosen = iter(transcripts.chosen.items())
    while batch := list(islice(chosen, TASKS_AT_ONCE)):
        numbers = [choice.rollout for _, choices in batch for choice in choices]
        texts = _read_rollouts(frame, numbers)
        for at, choices in batch:
            failed = [failure.block for failure in transcripts.failures.get(at, ())]
            rollouts = [
                {
                    "why": choice.why,
                    **texts[choice.rollout],
                    "tools": tools.number(texts[choice.rollout]["tools"]),
                }
                for choice in choices
            ]
            block = {"prompt": transcripts.prompts[at], "rollouts": [*failed, *rollouts]}
            yield data_block(f"rollouts-{at}", block).encode()


def _read_rollouts(frame: RunFrame, numbers: Sequence[int]) -> dict[int, JsonDict]:
    """Return the rollouts at the frame positions `numbers`, with their texts cut to length."""
    rollouts = frame.rollouts
    absent = np.full(len(rollouts), np.nan)
    output_tokens = rollouts.columns.values.get(LENGTH_FIELD, absent)
    prompt_tokens = rollouts.columns.values.get("input_tokens", absent)
    return {
        number: {
            "index": int(rollouts.rollout_index[number]),
            "reward": float(f"{rollouts.reward[number]:.6g}"),
            "tokens": _as_int(output_tokens, number),
            "tokens_in": _as_int(prompt_tokens, number),
            "tools": offered_tools(row),
            "fields": result_fields(row),
            "said": transcript(row),
        }
        for number, row in rollout_rows(frame, numbers)
    }


def _as_int(column: FloatArray, number: int) -> int | None:
    return None if np.isnan(column[number]) else int(column[number])


def _left_out(embedded: int, tasks: int, transcripts: _Transcripts, most_bytes: int) -> str:
    limits = (
        f"A text is cut in its middle at {ENTRY_CHARACTERS:,} characters, a transcript at "
        f"{TRANSCRIPT_CHARACTERS:,}."
    )
    which = (
        "every rollout of each"
        if transcripts.is_whole
        else "of each its best, worst and median rollout, and every failed one"
    )
    if embedded == tasks:
        return f"Transcripts of all {amount(tasks, 'task')} are in this file: {which}. {limits}"
    return (
        f"Transcripts of {embedded:,} of {amount(tasks, 'task')} are in this file: {which}. The "
        f"others were left out: the file stays under {most_bytes / 1e6:g} MB. {limits}"
    )

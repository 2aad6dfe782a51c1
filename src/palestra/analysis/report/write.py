"""Writes the report: first the numbers from the frame, then as many transcripts as fit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.analysis.report import overview
from palestra.analysis.report.facts import is_binary
from palestra.analysis.report.figures import figures
from palestra.analysis.report.markup import amount, data_block, visible_line
from palestra.analysis.report.page import Contents, after_transcripts, before_transcripts
from palestra.analysis.report.rows import (
    MOST_ROLLOUTS,
    ChosenRollout,
    materialized_rows,
    plan,
    rollout_rows,
)
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
    prompt,
    result_fields,
    snippet,
    transcript,
)
from palestra.analysis.summary import RunSummary, summarize
from palestra.analysis.task_rows import LENGTH_FIELD
from palestra.analysis.writing import replacing
from palestra.schema import JsonDict, RunPaths

MOST_BYTES = 10_000_000
"""The size limit of the report in bytes. Transcripts use what the numbers and the table leave free.
"""
ENDING_BYTES = 64_000
"""The number of bytes reserved for the script and the footer."""
NAME_CHARACTERS = 200
PROMPT_FIELDS = frozenset({"responses_create_params"})

Chosen = Mapping[int, Sequence[ChosenRollout]]


def write_report(
    frame: RunFrame,
    path: Path | str,
    summary: RunSummary | None = None,
    *,
    most_bytes: int = MOST_BYTES,
) -> None:
    """Write the self-contained HTML report of a run. The same run always gives the same bytes.

    Reads the chosen rows of the inputs and rollouts again. Raises InputDataError: a file changed
    since the run was loaded. If the numbers of a very large run exceed `most_bytes`, the report has
    no transcripts and is larger than `most_bytes`.
    """
    tasks = task_columns(frame)
    lists = task_lists(tasks, frame.rollouts)
    interest = by_interest(tasks, lists)
    positions = shown_tasks(len(tasks), interest)
    listed = set(positions)
    chosen = plan(frame.rollouts, (at for at in interest if at in listed))
    snippets, prompts = _prompts(frame, positions, chosen)
    summary = summary or summarize(frame)
    binary = is_binary(frame.rollouts.reward)
    contents = Contents(
        name=visible_line(_name(frame), NAME_CHARACTERS),
        lead=_lead(frame, summary),
        key_figures=overview.key_figures(summary, binary=binary),
        solved_split=overview.solved_split(frame),
        findings=overview.findings(frame, summary),
        figures=figures(frame, summary),
        outcomes=overview.outcomes(summary),
        groups=overview.groups(summary, binary=binary),
        grouped_by="agent" if frame.families is None else "family",
        lists=lists,
        tasks=tasks,
        table=table_data(frame, tasks, positions, snippets),
    )
    _write(Path(path), contents, _blocks(frame, chosen, prompts), most_bytes)


def _write(path: Path, contents: Contents, blocks: Iterator[bytes], most_bytes: int) -> None:
    with replacing(path) as file:
        head = before_transcripts(contents)
        file.write(head)
        room = most_bytes - len(head) - ENDING_BYTES
        embedded = 0
        for block in blocks:
            room -= len(block)
            if room < 0:
                break
            file.write(block)
            embedded += 1
        file.write(after_transcripts(_left_out(embedded, len(contents.tasks), most_bytes)))


def _prompts(
    frame: RunFrame, positions: Sequence[int], chosen: Chosen
) -> tuple[list[str], dict[int, Said]]:
    """Return the prompt snippet of every shown task, and the whole prompt of every chosen task."""
    snippets: dict[int, str] = {}
    prompts: dict[int, Said] = {}
    for at, row in materialized_rows(frame, positions, PROMPT_FIELDS):
        snippets[at] = snippet(row)
        if at in chosen:
            prompts[at] = prompt(row)
    return [snippets[at] for at in positions], prompts


def _blocks(frame: RunFrame, chosen: Chosen, prompts: Mapping[int, Said]) -> Iterator[bytes]:
    """Yield a data block for the page's script for each chosen task, in order of interest."""
    rollout_texts = _read_rollouts(
        frame, [choice.rollout for choices in chosen.values() for choice in choices]
    )
    for at, choices in chosen.items():
        rollouts = [{"why": choice.why, **rollout_texts[choice.rollout]} for choice in choices]
        yield data_block(f"rollouts-{at}", {"prompt": prompts[at], "rollouts": rollouts}).encode()


def _read_rollouts(frame: RunFrame, numbers: Sequence[int]) -> dict[int, JsonDict]:
    """Return the rollouts at the frame positions `numbers`, with their texts cut to length."""
    rollouts = frame.rollouts
    tokens = rollouts.columns.values.get(LENGTH_FIELD, np.full(len(rollouts), np.nan))
    return {
        number: {
            "index": int(rollouts.rollout_index[number]),
            "reward": float(f"{rollouts.reward[number]:.6g}"),
            "tokens": None if np.isnan(tokens[number]) else int(tokens[number]),
            "fields": result_fields(row),
            "said": transcript(row),
        }
        for number, row in rollout_rows(frame, numbers)
    }


def _name(frame: RunFrame) -> str:
    """Return the name of the rollouts file; for shards, their common name."""
    return RunPaths.for_files(frame.rollout_places.files).output.name


def _lead(frame: RunFrame, summary: RunSummary) -> str:
    per_task = frame.rollouts.per_task
    fewest, largest = int(per_task.min()), int(per_task.max())
    rollouts_each = (
        amount(largest, "rollout") if fewest == largest else f"{fewest} to {largest} rollouts"
    )
    agents = [line.name for line in summary.by_agent]
    by = f" by {agents[0]}" if len(agents) == 1 else f" by {len(agents)} agents"
    return f"{amount(len(frame.rollouts.tasks), 'task')} with {rollouts_each} each{by}."


def _left_out(embedded: int, tasks: int, most_bytes: int) -> str:
    limits = (
        f"A text is cut in its middle at {ENTRY_CHARACTERS:,} characters, a transcript at "
        f"{TRANSCRIPT_CHARACTERS:,}."
    )
    which = "of each its best, worst and longest rollout"
    if embedded == tasks:
        return f"Transcripts of all {amount(tasks, 'task')} are in this file: {which}. {limits}"
    return (
        f"Transcripts of {embedded:,} of {amount(tasks, 'task')} are in this file: {which}. The "
        f"others were left out: the file stays under {most_bytes / 1e6:g} MB and "
        f"{MOST_ROLLOUTS:,} rollouts. {limits}"
    )

"""Builds the head of the report: which run this is, when it ran, and how."""

from dataclasses import dataclass
from typing import Any

import orjson

from palestra.analysis.frame import RunFrame
from palestra.analysis.report.markup import Markup, amount, tag, visible_line
from palestra.analysis.run_head import RunHead, run_head
from palestra.analysis.summary import RunSummary
from palestra.schema import RunPaths

NAME_CHARACTERS = 200
VALUE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the head of the page says of the run."""

    title: str
    """`environment · model · date`; the name of the rollouts file when none is known."""
    lead: str
    settings: tuple[tuple[str, str], ...]
    """Names and values, in reading order."""
    command: str
    file: str
    """The name of the rollouts file."""

    def markup(self) -> Markup:
        """Return the settings and the command as HTML."""
        pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in self.settings]
        command = tag("pre", self.command, class_="command") if self.command else None
        return tag("div", tag("dl", *pairs, class_="settings"), command)


def run_facts(frame: RunFrame, summary: RunSummary) -> RunFacts:
    """Return the facts of a run, from its frame and its manifest."""
    files = frame.rollout_places.files
    head = run_head(files)
    file = RunPaths.for_files(files).output.name
    return RunFacts(
        title=visible_line(head.title or file, NAME_CHARACTERS),
        lead=" ".join(filter(None, (_lead(frame, summary), _selected(head)))),
        settings=tuple(
            (visible_line(name, 60), visible_line(value, VALUE_CHARACTERS))
            for name, value in _settings(head, file)
            if value
        ),
        command=visible_line(head.command, 1_000),
        file=visible_line(file, NAME_CHARACTERS),
    )


def _selected(head: RunHead) -> str:
    if not head.selected_from:
        return ""
    return (
        f"The tasks were chosen by their rewards in {visible_line(head.selected_from, 200)}: do not "
        "compare the two runs."
    )


def _settings(head: RunHead, file: str) -> list[tuple[str, str]]:
    started = f"{head.date} UTC" if head.date else ""
    verifier = f"code {head.verifier}" if head.verifier else ""
    if not verifier and head.version:
        verifier = f"of Palestra {head.version}"
    return [
        ("environment", head.environment),
        ("model", head.model),
        ("judge", head.judge),
        *((name, _text(value)) for name, value in head.settings.items()),
        ("verifier", verifier),
        ("Palestra", head.version),
        ("started", started),
        ("file", file),
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _lead(frame: RunFrame, summary: RunSummary) -> str:
    agents = [line.name for line in summary.by_agent]
    by = f" by {agents[0]}" if len(agents) == 1 else f" by {len(agents)} agents"
    if not len(frame.rollouts):
        return f"{amount(len(frame.requests), 'rollout')}{by}; none has a score."
    per_task = frame.rollouts.per_task
    fewest, largest = int(per_task.min()), int(per_task.max())
    rollouts_each = (
        amount(largest, "rollout") if fewest == largest else f"{fewest} to {largest} rollouts"
    )
    tasks = amount(len(frame.rollouts.tasks), "task")
    return f"{tasks} with {rollouts_each} each{by}."

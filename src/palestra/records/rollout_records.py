"""Finds one rollout in the files of a run: its prompt, its transcript, its reward, and why it
failed. `palestra show RUN TASK:ROLLOUT` prints it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from palestra.analysis import (
    Entries,
    Entry,
    advice_about,
    amount,
    html_table,
    output_entries,
    prompt_entries,
)
from palestra.causes import FailureMeanings, innermost, one_line
from palestra.config import masked_texts
from palestra.datasets import open_rows
from palestra.errors import ConfigError, InputDataError
from palestra.metrics import TaskIndex
from palestra.rollouts import announcement_of, ask_collection, import_advice, why_unscored
from palestra.schema import (
    CREATE_PARAMS,
    FAILURE_CLASS,
    INSTRUCTION_ROLES,
    JUDGE_EVALUATIONS,
    JUDGE_QUESTION,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    FailedAttempts,
    JsonDict,
    JsonObject,
    RunPaths,
    failure_kind,
    finite_reward,
    own_hint,
    with_compressed,
)
from palestra.system import shown

_PAIR: Final = re.compile(r"(\d+)[-/.,](\d+)")
"""A rollout whose indices have no colon between them."""
_OF_QUERIES: Final = re.compile(r"[<>=:\s]")
"""What queries have, and no task's name."""
_PROTOCOL: Final = frozenset(
    {TASK_INDEX, ROLLOUT_INDEX, CREATE_PARAMS, REWARD_COMPONENTS, "reward", "response", "agent_ref"}
)

_MESSAGE: Final = re.compile(r'"message": ?"((?:[^"\\]|\\["\\/bfnrt])*)"')
"""The message of an error in JSON, which may be cut off after it."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One attempt that failed."""

    number: int
    failure_class: str
    layer: str
    message: str
    """The innermost message."""
    hint: str
    hops: tuple[str, ...]
    """The servers that the error passed through, the innermost last: `server/path: status`, and the
    server's own words where they are not the message."""
    traceback: str = ""
    """Where the author's code raised: a line per frame, `file:line in function`, the innermost last."""
    judge_question: str = ""
    """What the judge was asked when it failed, shortened; empty when no judge failed."""

    def masked(self, mask: Callable[[str], str]) -> "FailedAttempt":
        """Return a copy with `mask` applied to all texts."""
        return replace(
            self,
            message=mask(self.message),
            hint=mask(self.hint),
            hops=tuple(map(mask, self.hops)),
            traceback=mask(self.traceback),
            judge_question=mask(self.judge_question),
        )


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """Everything that the files of a run say about one rollout."""

    task: TaskIndex
    rollout: int
    row: JsonObject
    """The materialized row: the task, with the request to the model."""
    result: JsonObject | None
    """The scored row; None when the rollout has no reward."""
    attempts: tuple[FailedAttempt, ...]
    """The failed attempts, in order."""
    kept: JsonObject | None
    """The row of the last failed attempt that kept the model's answer; None without one."""
    remedy: str
    """What gives the rollout a reward; empty when it has one."""

    def masked(self, mask: Callable[[str], str]) -> "RolloutRecord":
        """Return a copy with `mask` applied to all texts."""
        return replace(
            self,
            row=masked_texts(self.row, mask),
            result=masked_texts(self.result, mask),
            attempts=tuple(attempt.masked(mask) for attempt in self.attempts),
            kept=masked_texts(self.kept, mask),
            remedy=mask(self.remedy),
        )

    @property
    def outcome(self) -> str:
        """`scored`, the class of the last failure, or `not ended`."""
        if self.result is not None:
            return "scored"
        return self.attempts[-1].failure_class if self.attempts else "not ended"

    @property
    def reward(self) -> float | None:
        return None if self.result is None else finite_reward(self.result.get("reward"))

    @property
    def components(self) -> Mapping[str, Any]:
        """The components of the reward, by name; empty without any."""
        components = (self.result or {}).get(REWARD_COMPONENTS)
        return components if isinstance(components, Mapping) else {}

    @property
    def reported(self) -> JsonDict:
        """The fields that the verifier added to the row."""
        added = (self.result or {}).items()
        return {k: v for k, v in added if k not in _PROTOCOL and self.row.get(k) != v}

    @property
    def judged(self) -> list["JudgedQuestion"]:
        """The questions that the verifier asked the judge, in order; empty without any, and where
        they have another form.
        """
        evaluations = self.reported.get(JUDGE_EVALUATIONS)
        if not isinstance(evaluations, list) or not all(map(_is_exchange, evaluations)):
            return []
        return [
            JudgedQuestion(
                [entry for entry in prompt_entries(fields) if entry.kind not in INSTRUCTION_ROLES],
                output_entries(fields),
                str(fields.get("verdict_label") or ""),
            )
            for fields in evaluations
        ]

    @property
    def prompt(self) -> Entries:
        """What the model was asked."""
        return prompt_entries(self.row)

    @property
    def tools(self) -> list[JsonDict]:
        """The tools that the row offered to the model."""
        return tools_of(self.row)

    @property
    def transcript(self) -> Entries:
        """What the model and the tools answered. Of a failed rollout, what was kept."""
        return output_entries(self.result or self.kept or {})

    @property
    def answer(self) -> str:
        """The text of the model's last message; empty without one."""
        messages = (entry.text for entry in reversed(self.transcript) if entry.kind == "assistant")
        return next(messages, "")

    def __repr__(self) -> str:
        """Return one line: the rollout, and its reward or how it failed."""
        end = f"reward {self.reward:g}" if self.reward is not None else self.outcome
        if self.reward is None and self.attempts:
            end += f": {self.attempts[-1].message}"
        return f"<RolloutRecord {self.task}:{self.rollout}, {end}>"

    def _repr_html_(self) -> str:
        entries = [(e.kind, e.name, e.text) for e in (*self.prompt, *self.transcript)]
        return html_table(("", "", ""), entries, caption=repr(self))

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        return {
            "task": self.task,
            "rollout": self.rollout,
            "outcome": self.outcome,
            "reward": self.reward,
            "components": dict(self.components),
            "tools": [tool.get("name") for tool in self.tools],
            "prompt": [_entry_json(entry) for entry in self.prompt],
            "transcript": [_entry_json(entry) for entry in self.transcript],
            "reported": self.reported,
            "attempts": [
                {
                    "attempt": attempt.number,
                    "failure_class": attempt.failure_class,
                    "layer": attempt.layer,
                    "message": attempt.message,
                    "hint": attempt.hint,
                    "hops": list(attempt.hops),
                    "traceback": attempt.traceback,
                    "judge_question": attempt.judge_question,
                }
                for attempt in self.attempts
            ],
            "remedy": self.remedy,
            "row": dict(self.row),
        }


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question to the judge without the words of its system, the judge's reply, and the verdict
    that was read from it: empty when unknown.
    """

    question: Sequence[Entry]
    reply: Sequence[Entry]
    verdict: str


def _is_exchange(evaluation: Any) -> bool:
    return isinstance(evaluation, Mapping) and {CREATE_PARAMS, "response"} <= evaluation.keys()


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The rollouts of a run that failed with the same class and cause, and with messages that
    differ in numbers and quoted values alone.
    """

    failure_class: str
    message: str
    """The message of the first one."""
    count: int
    task: TaskIndex
    rollout: int
    """The task and the rollout of the first one."""


def tools_of(row: JsonObject) -> list[JsonDict]:
    """Return the tools that a row offers to the model."""
    params = row.get(CREATE_PARAMS)
    tools = params.get("tools") if isinstance(params, Mapping) else None
    return [dict(tool) for tool in tools or () if isinstance(tool, Mapping)]


def rollout_key(text: str) -> tuple[TaskIndex, int]:
    """Return the key in `17:3`; `17` is short for `17:0`. Raises ConfigError: it is no key."""
    task, colon, rollout = text.rpartition(":")
    if not colon:
        task, rollout = text, "0"
    if not (task and rollout.isdigit()):
        raise ConfigError(
            f"{text!r} is not a rollout", hint="TASK:ROLLOUT, such as 17:3; both count from 0"
        )
    return (int(task) if task.isdigit() else task), int(rollout)


def rollout_record(outputs: Sequence[Path], task: TaskIndex, rollout: int) -> RolloutRecord:
    """Return one rollout of a run. `outputs`: the run's output, or those of its shards.

    Raises InputDataError: the run has no such rollout; the message says which it has.
    """
    paths = [RunPaths(output) for output in outputs]
    inputs = [path for p in paths if (path := with_compressed(p.materialized_inputs))]
    row = next(_rows_of(inputs, task, rollout), None)
    if row is None:
        raise _no_such_rollout(paths, inputs, task, rollout)
    scored = [path for p in paths if (path := with_compressed(p.output))]
    result = next(_rows_of(scored, task, rollout), None)
    failures = [path for p in paths if (path := with_compressed(p.failures))]
    attempts = list(_rows_of(failures, task, rollout))
    record = record_of(row, result, attempts, FailureMeanings(), advice_about(outputs))
    report = None if result is not None else _report_on(outputs)
    if report is None:
        return record
    state = why_unscored(report, task, rollout, has_failed=bool(record.attempts))
    return replace(record, remedy=f"wait for the end of the run: {state}")


def _report_on(outputs: Sequence[Path]) -> JsonDict | None:
    """Return the status report of the collection that writes one of the outputs; None without one."""
    where = next(filter(None, map(announcement_of, outputs)), None)
    return None if where is None else ask_collection(where)


def record_of(
    row: JsonObject,
    result: JsonObject | None,
    failures: Sequence[JsonObject],
    meanings: FailureMeanings,
    advice: Callable[[str], str],
) -> RolloutRecord:
    """Return a rollout from its rows. `failures`: its failed attempts, in order. `advice`: completes
    what is said about the run.
    """
    failures_with_answer = [
        failed for failed in failures if isinstance(failed.get("response"), Mapping)
    ]
    return RolloutRecord(
        task=row[TASK_INDEX],
        rollout=row[ROLLOUT_INDEX],
        row=row,
        result=result,
        attempts=tuple(attempt_of(failed, meanings, advice) for failed in failures),
        kept=failures_with_answer[-1] if failures_with_answer else None,
        remedy="" if result is not None else advice(_remedy(row, failures)),
    )


def first_rollout(outputs: Sequence[Path]) -> str:
    """Return the first rollout of a run, as `palestra show` takes it; empty without any."""
    paths = [RunPaths(output) for output in outputs]
    files = (with_compressed(path) for p in paths for path in (p.materialized_inputs, p.output))
    rows = (row for path in files if path is not None for row in _all_rows(path))
    row = next(rows, None)
    return "" if row is None else f"{row[TASK_INDEX]}:{row[ROLLOUT_INDEX]}"


def failure_groups(outputs: Sequence[Path]) -> list[FailureGroup]:
    """Return the failed rollouts of a run by class and kind of message (`failure_kind`). The class
    with the most rollouts is first, and of each class its most frequent message.
    """
    last: dict[tuple[TaskIndex, int], JsonDict] = {}
    for output in outputs:
        path = with_compressed(RunPaths(output).failures)
        for row in _all_rows(path) if path is not None else ():
            last[row[TASK_INDEX], row[ROLLOUT_INDEX]] = row
        path = with_compressed(output)
        for row in _all_rows(path) if path is not None and last else ():
            last.pop((row[TASK_INDEX], row[ROLLOUT_INDEX]), None)
    groups: dict[tuple[str, str, str], FailureGroup] = {}
    of_class: Counter[str] = Counter()
    for key, row in last.items():
        failure_class, message = str(row.get(FAILURE_CLASS)), str(row.get("message") or "")
        alike = failure_kind(failure_class, str(row.get("cause") or ""), message)
        group = groups.get(alike, FailureGroup(failure_class, message, 0, *key))
        groups[alike] = replace(group, count=group.count + 1)
        of_class[failure_class] += 1
    return sorted(
        groups.values(),
        key=lambda g: (-of_class[g.failure_class], g.failure_class, -g.count),
    )


def _no_such_rollout(
    paths: Sequence[RunPaths], inputs: Sequence[Path], task: TaskIndex, rollout: int
) -> InputDataError:
    rollouts_of: dict[TaskIndex, int] = {}
    for path in inputs:
        for row in _all_rows(path):
            index = row[TASK_INDEX]
            rollouts_of[index] = max(rollouts_of.get(index, -1), row[ROLLOUT_INDEX])
    if not rollouts_of:
        return InputDataError(
            "the run has no materialized inputs, so its rollouts are unknown",
            hint=f"restore {shown(paths[0].materialized_inputs)}{import_advice(paths[0].output)}",
        )
    if task in rollouts_of:
        return InputDataError(
            f"task {task} has no rollout {rollout}: it has 0 to {rollouts_of[task]}",
            hint=f"its last one is {task}:{rollouts_of[task]}",
        )
    names = list(rollouts_of)
    numbers = f"{names[0]} to {names[-1]}" if len(names) > 1 else str(names[0])
    return InputDataError(
        f"the run has no task {task}: it has {amount(len(names), 'task')}, {numbers}",
        hint=_how_to_name_one(str(task), f"{names[0]}:0"),
    )


def _how_to_name_one(typed: str, example: str) -> str:
    """Return how a rollout is named, from what was typed for its task."""
    if pair := _PAIR.fullmatch(typed):
        example = f"{pair[1]}:{pair[2]}"
    how = f"a rollout is written TASK:ROLLOUT, such as {example}"
    if _OF_QUERIES.search(typed):
        return f"{how}; queries are for `palestra view` and for run.rollouts(…) in Python"
    return how


def _remedy(row: JsonObject, failures: Sequence[JsonObject]) -> str:
    attempts = FailedAttempts()
    for failed in failures:
        attempts.note(failed)
    name = f"{row[TASK_INDEX]}:{row[ROLLOUT_INDEX]}"
    return attempts.unscored(missing=0 if failures else 1, only=(name,)).what_helps()


def attempt_of(
    row: JsonObject, meanings: FailureMeanings, advice: Callable[[str], str]
) -> FailedAttempt:
    """Return a failed attempt, from its row in the failures file. `meanings`: pass the same one for
    many rows, since it remembers what it looked up. `advice`: completes what is said about the run.
    """
    hops = row.get("hops")
    number = row.get("attempt")
    return FailedAttempt(
        number=number if isinstance(number, int) else 1,
        failure_class=str(row.get(FAILURE_CLASS)),
        layer=meanings.layer_and_cause(row)[0],
        message=str(row.get("message") or ""),
        hint=advice(own_hint(str(row.get("hint") or ""))),
        hops=tuple(_hops(hops if isinstance(hops, list) else (), str(row.get("message") or ""))),
        traceback=str(row.get("traceback") or ""),
        judge_question=str(row.get(JUDGE_QUESTION) or ""),
    )


def _hops(hops: Sequence[Any], message: str) -> Iterator[str]:
    """Yield each server with its status and its own words. What it passes on is left out: it is
    `message`, or in the words of a server further in.
    """
    known_words = {"", one_line(message)}
    for hop in hops:
        if not isinstance(hop, Mapping):
            yield str(hop)
            continue
        path = str(hop.get("url") or "").partition("://")[2].partition("/")[2]
        name = f"{hop.get('server')}/{path}" if path else str(hop.get("server"))
        words = _own_words(str(hop.get("body") or ""))
        text = "" if words in known_words else f" {words}"
        known_words.add(words)
        yield f"{name}: {hop.get('status')}{text}"


def _own_words(body: str) -> str:
    """Return the message in the body of an error, which may be cut off; else the body."""
    words = innermost(body)
    if words == one_line(body) and (cut_off := _MESSAGE.search(body)):
        return one_line(json.loads(f'"{cut_off[1]}"'))
    return words


def _entry_json(entry: Entry) -> JsonDict:
    return {"kind": entry.kind, "name": entry.name, "text": entry.text}


def _rows_of(paths: Sequence[Path], task: TaskIndex, rollout: int) -> Iterator[JsonDict]:
    """Yield the rows of one rollout. Lines without the text of its index are not decoded."""
    value = json.dumps(task).encode()
    for path in paths:
        for row in _all_rows(path, needed=value):
            if row[TASK_INDEX] == task and row[ROLLOUT_INDEX] == rollout:
                yield row


def _all_rows(path: Path, *, needed: bytes = b"") -> Iterator[JsonDict]:
    """Yield the rows of a file that have both indices. A line that is cut off is left out."""
    with open_rows(path) as lines:
        for line in lines:
            if needed in line:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict) and {TASK_INDEX, ROLLOUT_INDEX} <= row.keys():
                    yield row

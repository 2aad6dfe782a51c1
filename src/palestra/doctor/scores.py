"""Look for problems in scored rollouts as a whole: truncated or empty answers, identical rewards.

Each rollout is scored, so none is a failure. Together they show that the rewards mean little.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from palestra.doctor.findings import Quote, quote
from palestra.doctor.reading import LogObservation, Rank
from palestra.metrics import are_same_number
from palestra.schema import (
    AGENT_REF,
    EXPECTED_ANSWER,
    EXTRACTED_ANSWER,
    OUTSIDE_REWARD_RULES,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TOOL_FAILURES,
    UNUSED_WEIGHTS,
    WeightUse,
    field_of,
    is_truncated,
    says_nothing,
)

MOST_EXAMPLES: Final = 3
MOST_SHARE: Final = 0.5
"""Share of truncated or empty answers from which a problem is reported."""
FEWEST_SCORED: Final = 10
FEWEST_TASKS: Final = 5
"""Least number of tasks for which identical rewards are reported."""
ANSWERS_READ: Final = 1_000
"""Largest number of rows whose answer is checked for text."""
_CUT: Final = "/response/incomplete_details"


class _Details(msgspec.Struct):
    reason: str | None = None
    provider_message: str | None = None
    """The endpoint's error message when the context is full."""


class _Response(msgspec.Struct):
    incomplete_details: _Details | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")


class ScoredRow(msgspec.Struct):
    """The fields read from a result row: its indices, agent, reward with its components, response, tool
    failures, answers, the rules that its reward breaks, and the weights without a component.
    """

    task: int = msgspec.field(name=TASK_INDEX)
    rollout: int = msgspec.field(name=ROLLOUT_INDEX)
    reward: float
    response: _Response | None = None
    extracted_answer: Any = msgspec.field(name=EXTRACTED_ANSWER, default=None)
    expected_answer: Any = msgspec.field(name=EXPECTED_ANSWER, default=None)
    tool_failures: msgspec.Raw = msgspec.field(name=TOOL_FAILURES, default=msgspec.Raw(b"null"))
    outside_rules: Any = msgspec.field(name=OUTSIDE_REWARD_RULES, default=None)
    unused_weights: Any = msgspec.field(name=UNUSED_WEIGHTS, default=None)
    components: Any = msgspec.field(name=REWARD_COMPONENTS, default=None)
    agent_ref: Any = msgspec.field(name=AGENT_REF, default=None)

    @property
    def agent(self) -> str:
        """The name of the row's agent; empty without one."""
        return str(field_of(self.agent_ref, "name") or "")


@dataclass(slots=True)
class _Tally:
    """Lines of one kind: their number, and quotes of the first ones."""

    count: int = 0
    quotes: list[Quote] = field(default_factory=list)

    def add(self, path: Path, text: str, line: int, pointer: str) -> None:
        self.count += 1
        if len(self.quotes) < MOST_EXAMPLES:
            self.quotes.append(quote(path, text, line=line, pointer=pointer))


@dataclass(slots=True)
class ScoredRows:
    """Statistics over the scored rows of one file, which are added one by one."""

    path: Path
    scored: int = 0
    answers: int = 0
    """The number of answers that were checked."""
    tasks: set[int] = field(default_factory=set)
    rewards: set[float] = field(default_factory=set)
    """The different rewards; at most two are kept."""
    overflowed: _Tally = field(default_factory=_Tally)
    stopped: _Tally = field(default_factory=_Tally)
    empty: _Tally = field(default_factory=_Tally)
    outside_rules: _Tally = field(default_factory=_Tally)
    broken_tools: _Tally = field(default_factory=_Tally)
    rewarded: _Tally = field(default_factory=_Tally)
    refused_numbers: _Tally = field(default_factory=_Tally)
    """Rows with reward 0 whose answer equals the expected one as a number."""
    weight_use: WeightUse = field(default_factory=WeightUse)
    weight_quotes: dict[str, Quote] = field(default_factory=dict)
    """The first row of each agent."""

    @property
    def truncated(self) -> int:
        """The number of rows whose answer or conversation was truncated."""
        return self.overflowed.count + self.stopped.count

    def add(self, row: ScoredRow, number: int) -> None:
        """Add one row, which is in line `number` of the file."""
        self.scored += 1
        if len(self.rewards) < 2:
            self.rewards.add(row.reward)
        if len(self.tasks) < FEWEST_TASKS:
            self.tasks.add(row.task)
        self.rewarded.add(self.path, f"reward {row.reward:g}", number, "/reward")
        if details := _cut(row):
            cut = self.overflowed if details.provider_message else self.stopped
            cut.add(self.path, details.provider_message or "max_output_tokens", number, _CUT)
        elif self.answers < ANSWERS_READ and row.response is not None:
            self.answers += 1
            if _is_empty(row.response.output):
                self.empty.add(self.path, "no text in any message", number, "/response/output")
        if row.reward == 0 and are_same_number(row.extracted_answer, row.expected_answer):
            text = f"reward 0 for {row.extracted_answer}, expected {row.expected_answer}"
            self.refused_numbers.add(self.path, text, number, f"/{EXTRACTED_ANSWER}")
        if limits := _limits(row.outside_rules):
            text = f"reward {row.reward:g}, and the rules allow {limits}"
            self.outside_rules.add(self.path, text, number, "/reward")
        if broken := _broken_tools(row.tool_failures):
            self.broken_tools.add(self.path, broken, number, f"/{TOOL_FAILURES}")
        self._add_weights(row, number)

    def _add_weights(self, row: ScoredRow, number: int) -> None:
        if row.agent not in self.weight_quotes:
            text = f"no component for {row.unused_weights}"
            first = quote(self.path, text, line=number, pointer=f"/{UNUSED_WEIGHTS}")
            self.weight_quotes[row.agent] = first
        self.weight_use.add(row.agent, row.unused_weights, row.components)

    def observations(self) -> Iterator[LogObservation]:
        """Yield the observations that are worth reporting."""
        of = f"of {self.scored} scored rollouts"
        if self.overflowed.count:
            text = f"{self.overflowed.count} {of} do not fit into the model's context"
            yield _observation("model.context-too-long", text, self.overflowed)
        if self.scored and self.stopped.count / self.scored >= MOST_SHARE:
            text = f"{self.stopped.count} of {self.scored} answers end at max_output_tokens"
            yield _observation("model.answers-cut", text, self.stopped)
        if self.answers and self.empty.count / self.answers >= MOST_SHARE:
            text = f"{self.empty.count} of {self.answers} answers are empty"
            yield _observation("model.empty-answers", text, self.empty)
        if self.broken_tools.count:
            text = f"in {self.broken_tools.count} {of} a tool broke"
            yield _observation("verifier.tools-break", text, self.broken_tools)
        if self.outside_rules.count:
            text = f"{self.outside_rules.count} {of} have a reward outside the environment's rules"
            yield _observation("verifier.reward-outside-rules", text, self.outside_rules)
        if self.refused_numbers.count:
            text = f"{self.refused_numbers.count} {of} have reward 0 for the expected number"
            yield _observation("verifier.right-number-refused", text, self.refused_numbers)
        for unused in self.weight_use.unused():
            yield LogObservation(
                f"{unused.agent}: {unused}" if unused.agent else str(unused),
                (self.weight_quotes[unused.agent],),
                Rank.EXCEPTION,
                cause="verifier.unused-weights",
            )
        enough = self.scored >= FEWEST_SCORED and len(self.tasks) >= FEWEST_TASKS
        if enough and len(self.rewards) == 1:
            (reward,) = self.rewards
            text = f"all {self.scored} rewards are {reward:g}"
            yield _observation("verifier.one-reward", text, self.rewarded)


def _observation(cause: str, text: str, tally: _Tally) -> LogObservation:
    return LogObservation(text, tuple(tally.quotes), Rank.EXCEPTION, cause=cause)


def _cut(row: ScoredRow) -> _Details | None:
    """Return why the answer is truncated; None for a complete answer."""
    return row.response.incomplete_details if is_truncated(row.response) and row.response else None


def _is_empty(output: msgspec.Raw) -> bool:
    """Whether the model wrote nothing at all. Output in an unknown form counts as not empty."""
    items = _decoded(output)
    if not isinstance(items, list):
        return False
    return says_nothing(item for item in items if isinstance(item, Mapping))


def _limits(limits: Any) -> str:
    """Return the limits of reward rules, such as `0 to 1`; empty for anything else."""
    numbers = limits if isinstance(limits, list) else []
    if len(numbers) != 2 or not all(isinstance(number, int | float) for number in numbers):
        return ""
    return f"{numbers[0]:g} to {numbers[1]:g}"


def _broken_tools(raw_faults: msgspec.Raw) -> str:
    """Return the first failed tool call, such as `look_up: KeyError at app.py:7 in look_up`; empty
    without one.

    The field may hold anything, because authors can write to it.
    """
    faults = _decoded(raw_faults)
    first = faults[0] if isinstance(faults, list) and faults else None
    if not isinstance(first, dict) or "tool" not in first:
        return ""
    where = f" at {first['at']}" if first.get("at") else ""
    return f"{first['tool']}: {first.get('type')}{where}"


def _decoded(raw_value: msgspec.Raw) -> Any:
    raw = bytes(raw_value)
    return None if raw == b"null" else orjson.loads(raw)

"""The check with hostile texts and shapes: no verifier may fail on them, whatever their reward."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from palestra.conformance.answers import in_place, value_in
from palestra.conformance.examination import Examination, ProbedAnswer, result, skipped
from palestra.conformance.report import CheckResult, VerifierFault
from palestra.schema import (
    FunctionCall,
    FunctionCallOutput,
    OutputItem,
    OutputMessage,
    Reasoning,
    Refusal,
    Response,
    SummaryText,
    UnknownItem,
    response_of,
    said,
)
from palestra.schema import called as a_call
from palestra.server import EnvironmentServer

_SIZES = (10_000, 30_000, 100_000, 1_000_000)
"""The sizes of hostile texts, in characters. A larger text is tried only after the smaller one
caused no problem, so that slow growth is found at a small size."""

_CONTROL = "".join(map(chr, (*range(32), 127, 0x200B, 0x202E, 0xFEFF, 0xFFFE)))
_VALUES = (
    "1" * 5000,
    "9**9**9**9",
    "9^{9^{9^{9}}}",
    "1e999999999",
    "nan",
    "inf",
    "-0",
    "1/0",
    "null",
    "{}",
    "[]",
    '"',
    "\\",
    "%s%n{0}${x}",
    "\x00",
    _CONTROL,
    "\ud800",
    "\U0001f600\u0301" * 50,
    "<script>alert(1)</script>",
    "'; DROP TABLE answers; --",
)
"""Short texts that are hard to parse. Each is tried alone, and in place of the answer's value."""

_FOOD = {
    "letters": ("", "a", "!"),
    "digits": ("", "1", "x"),
    "spaces": ("", " ", "x"),
    "newlines": ("", "\n", "x"),
    "brackets": ("", "(", ""),
    "nested lists": ("", "[", ""),
    "nested objects": ("", '{"a":', ""),
    "boxes": ("", "\\boxed{", ""),
    "fractions": ("", "\\frac{", ""),
    "powers": ("", "9^", "9"),
    "tags": ("", "<answer>", ""),
    "fences": ("", "```python\n", ""),
    "commas": ("", "1,", "x"),
    "signs": ("", "-", "1"),
    "dots": ("", "1.", "x"),
    "quotes": ("", "\\\"'", ""),
    "comments": ("", "/*", ""),
    "apostrophes": ("", "'a ", ""),
    "words": ("", "aa bb ", "!"),
    "answers": ("", "Answer: ", "!"),
}
"""The start, the repeated part and the end of texts that make a bad regular expression very slow.
"""

_HOSTILE_ROWS: Final = 5
_SLOW_S: Final = 1.0
"""A kind of text that took longer than this, in seconds, with one row is not tried with other rows.
"""
_MOST_HOSTILE: Final = 5
"""After this many findings the check stops, because each one may take the full time limit."""


@dataclass(frozen=True, slots=True)
class _Food:
    """A hostile text that can be made in any size."""

    name: str
    before: str
    again: str
    after: str

    def of_size(self, size: int) -> str:
        """Return a text of about `size` characters."""
        return self.before + self.again * (size // len(self.again)) + self.after


async def check_hostile(work: Examination) -> CheckResult:
    """Check that huge, deep, binary and malformed answers raise no error and are verified in time."""
    findings: list[VerifierFault] = []
    troublesome: set[str] = set()
    until = time.monotonic() + work.limits.hostile_s
    for number, task, gold in _hostile_rows(work):
        for kind, grow in _hostile(work, task, gold):
            if kind in troublesome:
                continue  # one row tells it, and it may take long
            began = time.monotonic()
            if began > until:
                note = (
                    f"stopped after {work.limits.hostile_s:g} s; --hostile-seconds sets a "
                    "longer time"
                )
                return result("hostile", work.now.probes, findings, note)
            if len(findings) >= _MOST_HOSTILE:
                note = f"stopped after {_MOST_HOSTILE} findings"
                return result("hostile", work.now.probes, findings, note)
            problem = await _first_trouble(work, kind, grow, task, number)
            if problem is not None:
                findings.append(problem)
            if problem is not None or time.monotonic() - began > _SLOW_S:
                troublesome.add(kind)
    if not work.now.probes:
        return skipped("hostile", "there are no example rows")
    return result("hostile", work.now.probes, findings)


async def _first_trouble(
    work: Examination,
    kind: str,
    grow: Iterator[Response],
    task: Mapping[str, object],
    number: int | None,
) -> VerifierFault | None:
    """Return the fault of the smallest text of a kind that causes trouble; None when no text does."""
    for response in grow:
        probe = ProbedAnswer(f"hostile: {kind}", task, response, number)
        problem = await _borne(work, probe)
        if problem:
            return probe.finding(problem)
    return None


async def _borne(work: Examination, probe: ProbedAnswer) -> str:
    """Return the problem that a hostile answer caused; empty when there was none.

    A blocked event loop is also a finding of `check_loop`.
    """
    work.let_judge(award=False)
    blocks = len(work.blocks)
    limit_s = work.limits.blocked_by_hostile_s
    answer_s = work.limits.timeout_s
    if isinstance(work.server, EnvironmentServer):
        answer_s = min(answer_s, work.limits.hostile_answer_s)
    verdict = await work.ask(probe, blocked_s=limit_s, limit_s=answer_s)
    if len(work.blocks) > blocks:
        return work.blocks[-1].problem
    return work.trouble(verdict)


def _hostile_rows(
    work: Examination,
) -> Iterator[tuple[int | None, Mapping[str, object], Response | None]]:
    by_row = {gold.number: gold for gold in reversed(work.golds)}
    for number, row in list(enumerate(work.rows))[:_HOSTILE_ROWS]:
        gold = by_row.get(number)
        yield number, row, None if gold is None else gold.response
    if not work.rows:
        for gold in work.golds[:_HOSTILE_ROWS]:
            yield gold.number, gold.task, gold.response


def _hostile(
    work: Examination, task: Mapping[str, object], gold: Response | None
) -> Iterator[tuple[str, Iterator[Response]]]:
    text = "" if gold is None else gold.final_text
    value = value_in(task, text) if text.strip() else ""
    for number, hard in enumerate(_VALUES):
        yield f"hard value {number}", iter([response_of(hard)])
        if value and text.strip() != value:
            yield f"hard value {number} in place", iter([response_of(in_place(text, value, hard))])
    for name, make in _shapes(sorted(work.door.tools)):
        yield name, iter([make()])
    for food in _foods(text, value):
        yield (
            food.name,
            (response_of(food.of_size(size)) for size in _SIZES if size <= work.limits.largest),
        )
    for name, deep in _nested():
        yield name, iter([response_of(deep)])
        if value and text.strip() != value:
            yield f"{name} in place of the value", iter([response_of(in_place(text, value, deep))])


def _foods(text: str, value: str) -> list[_Food]:
    """Return the usual hostile texts, those in place of the right answer's value, and those made of
    its parts.
    """
    foods = [_Food(name, *parts) for name, parts in _FOOD.items()]
    before, matched, after = text.rpartition(value) if value else ("", "", "")
    if matched and (before or after):
        foods += [
            _Food(f"{name} in place of the value", before + first, middle, last + after)
            for name, (first, middle, last) in _FOOD.items()
            if name in {"letters", "digits", "spaces", "brackets", "nested lists", "signs"}
        ]
        foods.append(
            _Food("the value's beginning again and again", "", before[-12:] or after[:12], "")
        )
    if text:
        foods.append(_Food("the right answer again and again", "", f"{text}\n", ""))
    return foods


def _nested(depth: int = 100_000) -> Iterator[tuple[str, str]]:
    """Yield deeply nested texts whose brackets are all closed."""
    yield "deep lists", "[" * depth + "]" * depth
    yield "deep objects", '{"a":' * depth + "1" + "}" * depth
    yield "deep boxes", "\\boxed{" * 20_000 + "1" + "}" * 20_000
    yield "deep fractions", "\\frac{1}{" * 20_000 + "1" + "}" * 20_000
    yield "deep brackets", "(" * depth + "1" + ")" * depth
    yield "deep tags", "<a>" * 30_000 + "</a>" * 30_000


_Shape = tuple[str, Callable[[], Response]]


def _shapes(tools: Sequence[str]) -> Iterator[_Shape]:
    """Yield responses with no message or with many, and calls of `tools` with malformed arguments."""
    silent = OutputMessage(id="m", content=[])
    declined = OutputMessage(id="m", content=[Refusal(refusal="no", type="refusal")])
    thought = Reasoning(id="r", summary=[SummaryText(text="hm", type="summary_text")])
    unknown = UnknownItem.model_validate({"type": "image_generation_call", "result": None})
    stray = FunctionCallOutput(call_id="nobody", output="[]", type="function_call_output")
    parts = FunctionCallOutput(call_id="c", output=[{"type": "input_text", "text": "x"}])
    fixed: dict[str, list[OutputItem]] = {
        "no output": [],
        "a message without parts": [silent],
        "a refusal": [declined],
        "a thought alone": [thought],
        "an item of an unknown type": [unknown],
        "an output without a call": [stray],
        "an output in parts": [a_call("f", "{}", "c"), parts],
        "three thousand messages": [said("4")] * 3000,
        "two thousand calls": [a_call("f", '{"x": 1}', f"c{n}") for n in range(2000)],
        "a call without a name": [a_call("", "{}")],
    }
    for name, output in fixed.items():
        yield name, lambda output=output: response_of(*output)  # type: ignore[misc]
    for text in _arguments():
        for tool in (*tools[:3], "no_such_tool"):
            yield (
                "a call with hard arguments",
                lambda tool=tool, text=text: response_of(  # type: ignore[misc]
                    FunctionCall(name=tool, arguments=text, call_id="c")
                ),
            )


def _arguments() -> Iterator[str]:
    yield from ("", "null", "[]", "{", '{"a": 1e999}', "\x00", "\ud800")
    yield "[" * 100_000
    yield '{"a":' * 300 + "1" + "}" * 300
    yield orjson.dumps({"a": "x" * 1_000_000}).decode()
    yield orjson.dumps({str(n): n for n in range(20_000)}).decode()

"""Texts and shapes of responses that no verifier may trip over, whatever they are worth."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson

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

SIZES = (10_000, 30_000, 100_000, 1_000_000)
"""Characters. What grows without bound is met while it is small: a larger text follows only when
the smaller one was well borne."""

CONTROL = "".join(map(chr, (*range(32), 127, 0x200B, 0x202E, 0xFEFF, 0xFFFE)))
VALUES = (
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
    CONTROL,
    "\ud800",
    "\U0001f600\u0301" * 50,
    "<script>alert(1)</script>",
    "'; DROP TABLE answers; --",
)
"""Short texts that are hard to read as anything; tried alone, and where the value belongs."""

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
"""What is before, repeated, and after: what catastrophic patterns are fed on."""


@dataclass(frozen=True, slots=True)
class Food:
    """A text that can be made of any size."""

    name: str
    before: str
    again: str
    after: str

    def of_size(self, size: int) -> str:
        """About `size` characters of it."""
        return self.before + self.again * (size // len(self.again)) + self.after


def foods(text: str, value: str) -> list[Food]:
    """The usual ones, those where the right answer's value would stand, and of its own parts."""
    made = [Food(name, *parts) for name, parts in _FOOD.items()]
    before, found, after = text.rpartition(value) if value else ("", "", "")
    if found and (before or after):
        made += [
            Food(f"{name} in place of the value", before + first, again, last + after)
            for name, (first, again, last) in _FOOD.items()
            if name in {"letters", "digits", "spaces", "brackets", "nested lists", "signs"}
        ]
        made.append(
            Food("the value's beginning again and again", "", before[-12:] or after[:12], "")
        )
    if text:
        made.append(Food("the right answer again and again", "", f"{text}\n", ""))
    return made


def nested(depth: int = 100_000) -> Iterator[tuple[str, str]]:
    """Deep nesting that is closed again."""
    yield "deep lists", "[" * depth + "]" * depth
    yield "deep objects", '{"a":' * depth + "1" + "}" * depth
    yield "deep boxes", "\\boxed{" * 20_000 + "1" + "}" * 20_000
    yield "deep fractions", "\\frac{1}{" * 20_000 + "1" + "}" * 20_000
    yield "deep brackets", "(" * depth + "1" + ")" * depth
    yield "deep tags", "<a>" * 30_000 + "</a>" * 30_000


Shape = tuple[str, Callable[[], Response]]


def shapes(tools: Sequence[str]) -> Iterator[Shape]:
    """Responses that are no message, or many; calls of `tools` with arguments that are none."""
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

"""Make wrong answers from right ones.

A made answer must surely be wrong: a digit is changed, the end is cut off, or the right value is
named only to deny it. Where such an answer may still be right, the environment lists its kind in
`reward_rules.unsure`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from palestra.schema import (
    CREATE_PARAMS,
    FunctionCall,
    JsonDict,
    JsonObject,
    OutputMessage,
    Response,
    changed,
    encode_json,
    response_of,
    said,
)

LONGEST_VALUE = 80
"""The longest value, in characters, that can be named in a sentence."""
_ANSWER_FIELD = re.compile(r"answer|expected|solution|label|target|gold|truth", re.IGNORECASE)
_PLACES = (
    re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"),
    re.compile(r"<(\w+)>([^<>]*)</\1>"),
    re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL),
    re.compile(r"answer\s*(?:is|:)\s*([^\n]+?)[.\s]*$", re.IGNORECASE | re.MULTILINE),
)
GARBAGE = (
    "I do not know.",
    "asdf;lkj qwer 0x1F ~~ -- ??",
    "Sorry, as a language model I cannot help with that request.",
    "None",
)


@dataclass(frozen=True, slots=True)
class DerivedAnswer:
    """A made answer, and its kind, such as `truncated`."""

    kind: str
    response: Response


def spoken(response: Response) -> str:
    """Return a response as one text for people: its messages and its calls."""
    parts: list[str] = []
    for item in response.output:
        if isinstance(item, OutputMessage):
            parts.append(item.text)
        elif isinstance(item, FunctionCall):
            parts.append(f"{item.name}({item.arguments})")
        else:
            parts.append(f"<{getattr(item, 'type', 'item')}>")
    return "\n".join(parts)


def says_something(response: Response) -> bool:
    """Whether the response has a text or a call."""
    return bool(spoken(response).strip())


def same(first: Response, second: Response) -> bool:
    """Whether two answers have the same text, apart from white space."""
    return spoken(first).split() == spoken(second).split()


def with_text(response: Response, text: str) -> Response:
    """Return the response with `text` as its last message, which is added if it has no message."""
    output = list(response.output)
    for index in range(len(output) - 1, -1, -1):
        if isinstance(output[index], OutputMessage):
            output[index] = said(text)
            return changed(response, {"output": output})
    return changed(response, {"output": [*output, said(text)]})


def value_in(task: JsonObject, text: str) -> str:
    """Return the value that the text gives as its answer; the last word of a long text without a
    clear one.
    """
    named_values = [
        str(value)
        for name, value in task.items()
        if _ANSWER_FIELD.search(name) and isinstance(value, str | int | float)
        if not isinstance(value, bool)
    ]
    matching = [value for value in named_values if value.strip() and value in text]
    if matching:
        return max(matching, key=len)
    for pattern in _PLACES:
        matches = list(pattern.finditer(text))
        if matches:
            return str(matches[-1].groups()[-1]).strip()
    return text.strip() if len(text.strip()) <= LONGEST_VALUE else text.rsplit(maxsplit=1)[-1]


def in_place(text: str, value: str, replacement: str) -> str:
    """Return the text with the last occurrence of `value` replaced; without one, the replacement
    alone.
    """
    before, matched, after = text.rpartition(value) if value else (text, "", "")
    return f"{before}{replacement}{after}" if matched else replacement


def other_value(value: str) -> str:
    """Return a value that is surely different from `value`."""
    numbers = list(re.finditer(r"\d+", value))
    # Of a program, a number more or less may make no difference.
    if numbers and "\n" not in value and len(value) <= LONGEST_VALUE:
        last = numbers[-1]
        # Long ones need not be read as numbers to be changed.
        digits = last[0][:-1] + str((int(last[0][-1]) + 1) % 10)
        return value[: last.start()] + digits + value[last.end() :]
    # Every letter: a verifier may rightly look at some of the words only.
    shifted = "".join(_next_letter(char) for char in value)
    return shifted if shifted != value else value + "1"


def _next_letter(char: str) -> str:
    if not (char.isascii() and char.isalpha()):
        return char
    first = "A" if char.isupper() else "a"
    return chr((ord(char) - ord(first) + 1) % 26 + ord(first))


def inside_another(value: str) -> str | None:
    """Return a longer value that contains this one, as 141 contains 4; None when it is no number or
    words.
    """
    if not re.fullmatch(r"\w+([ ./-]\w+)*", value):
        return None
    return f"1{value}1" if value[:1].isdigit() else f"x{value}x"


def wrong_answers(task: JsonObject, gold: Response) -> Iterator[DerivedAnswer]:
    """Yield all wrong answers that can be made from one right answer and its row."""
    if not says_something(gold):
        return  # where nothing is to be done, a text beside it may be fine
    yield DerivedAnswer("empty", response_of())
    yield DerivedAnswer("empty", response_of(""))
    yield DerivedAnswer("empty", response_of(" \n\t"))
    for text in GARBAGE:
        yield DerivedAnswer("garbage", response_of(text))
    if (prompt := prompt_of(task)).strip():
        yield DerivedAnswer("echo", response_of(prompt))
    if any(isinstance(item, FunctionCall) for item in gold.output):
        yield from _of_calls(gold)
    elif text := gold.final_text:
        yield from _of_text(task, gold, text)


def _of_text(task: JsonObject, gold: Response, text: str) -> Iterator[DerivedAnswer]:
    value = value_in(task, text)
    for cut in _cuts(text, value):
        yield DerivedAnswer("truncated", with_text(gold, cut))
    for another in (other_value(value), inside_another(value)):
        if another is not None:
            yield DerivedAnswer("wrong", with_text(gold, in_place(text, value, another)))
    if len(value) <= LONGEST_VALUE and "\n" not in value:
        for sentence in (
            "I give up. It is surely not {}",
            "After {} attempts I have no answer, not {}",
        ):
            yield DerivedAnswer("mentioned", response_of(sentence.replace("{}", value)))


def _cuts(text: str, value: str) -> Iterator[str]:
    """Yield the text without its second half, and the text cut off inside its value."""
    cuts = {text[: len(text) // 2]}
    start = text.rfind(value)
    ends = [match.end() for match in re.finditer(r"\w", value)]
    if start >= 0 and len(ends) > 1:
        cuts.add(text[: start + ends[-1] - 1])
    return (cut for cut in sorted(cuts) if cut.strip() and cut.strip() != text.strip())


def _of_calls(gold: Response) -> Iterator[DerivedAnswer]:
    output = list(gold.output)
    call_indices = [n for n, item in enumerate(output) if isinstance(item, FunctionCall)]
    last = call_indices[-1]
    yield DerivedAnswer("truncated", changed(gold, {"output": output[:last]}))
    for index in reversed(call_indices):
        call = output[index]
        assert isinstance(call, FunctionCall)  # noqa: S101  # for the type checker
        changed_arguments = _other_arguments(call.arguments)
        if changed_arguments is not None:
            cut = call.arguments[: len(call.arguments) // 2]
            yield DerivedAnswer("truncated", _with_call(gold, index, arguments=cut))
            yield DerivedAnswer("wrong", _with_call(gold, index, arguments=changed_arguments))
            break
    first = output[last]
    assert isinstance(first, FunctionCall)  # noqa: S101  # for the type checker
    yield DerivedAnswer("wrong", _with_call(gold, last, name=first.name + "_x"))
    yield DerivedAnswer(
        "mentioned", response_of(f"I would call {first.name}({first.arguments}), but I did not.")
    )


def _with_call(gold: Response, index: int, **values: Any) -> Response:
    output = list(gold.output)
    call = output[index]
    output[index] = call.model_copy(update=values)
    return changed(gold, {"output": output})


def _other_arguments(text: str) -> str | None:
    """Return the arguments with one value changed; None when there is no value to change."""
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    changed = _other_leaf(arguments)
    return None if changed is None else encode_json(changed).decode()


def _other_leaf(value: Any) -> Any:
    """Return the value with its last scalar changed; None when it has no scalar."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return other_value(value) if value else "x"
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value or ()))
    for key in reversed(keys):
        changed = _other_leaf(value[key])
        if changed is not None:
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = changed
            return copy
    return None


def related(first: JsonObject, second: JsonObject) -> bool:
    """Whether two rows declare the same right answer, so that an answer to one may be right for the
    other.
    """
    return any(
        _ANSWER_FIELD.search(name) and name in second and second[name] == value
        for name, value in first.items()
        if value not in (None, "", [], {})
    )


def prompt_of(task: JsonObject) -> str:
    """Return all text of the task's input."""
    conversation = task.get(CREATE_PARAMS, {}).get("input", "")
    return conversation if isinstance(conversation, str) else "\n".join(_texts(conversation))


def _texts(items: Any) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        content = item.get("content") if isinstance(item, Mapping) else None
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from (str(p["text"]) for p in content if isinstance(p, Mapping) and "text" in p)


def told_in_the_prompt(task: JsonObject, text: str) -> JsonDict:
    """Return the row with `text` added to its prompt, as an example of an answer."""
    params = dict(task.get(CREATE_PARAMS, {}))
    conversation = params.get("input", [])
    items = (
        [{"role": "user", "content": conversation}]
        if isinstance(conversation, str)
        else list(conversation)
    )
    hint = f"An example of how others answered:\n{text}"
    last = items[-1] if items else None
    if isinstance(last, Mapping) and isinstance(last.get("content"), str):
        items[-1] = {**last, "content": f"{last['content']}\n\n{hint}"}
    else:
        items.insert(0, {"role": "user", "content": hint})
    return {**task, CREATE_PARAMS: {**params, "input": items}}


def guesses(task: JsonObject) -> Iterator[Response]:
    """Yield answers that may be right, made from the row's own answer field."""
    for name in ("expected_answer", "answer", "expected", "solution", "label", "target"):
        value = task.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            forms = ("{}", "\\boxed{{{}}}", "<answer>{}</answer>", "Answer: {}")
            yield from (response_of(form.format(value)) for form in forms)

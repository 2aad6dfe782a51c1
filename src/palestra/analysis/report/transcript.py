"""Converts a rollout to a readable transcript, with texts cut to fixed lengths. Does no I/O.

Agents and environments write rows of any shape. So the code assumes nothing about it: an unknown
item is shown as JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from palestra.analysis.report.markup import visible, visible_line
from palestra.metrics import INDICES, REWARD
from palestra.schema import REWARD_COMPONENTS, JsonObject

ENTRY_CHARACTERS = 4_000
"""The largest length of the text of one message, call or result; its middle is left out."""
TRANSCRIPT_CHARACTERS = 12_000
"""The largest length of a rollout's transcript, or of a prompt; entries in the middle are left out.
"""
FIELD_CHARACTERS = 240
MOST_FIELDS = 16
SNIPPET_CHARACTERS = 80
QUESTION_CHARACTERS = 2_000
_ALIKE = 24
"""Questions that share so many characters at their beginning come from one template."""

Said = list[list[Any]]
"""Entries in the format of the page's script: [kind, name, text]; [kind, name, head, number of
characters left out, tail] for a text without its middle; [count] for `count` entries left out."""

_KEPT_AT_THE_END = 0.4
"""The share of a cut text taken from its end, where the answer usually is."""
_NOT_FIELDS = INDICES | {"response", "responses_create_params", "agent_ref", REWARD}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a transcript. `kind`: a role, or `reasoning`, `call`, `result` or `other`."""

    kind: str
    name: str
    """The name of the called tool, or the type of an unknown item."""
    text: str

    def __str__(self) -> str:
        """Return the text under a head such as `[call add]`."""
        return f"[{' '.join(filter(None, (self.kind, self.name)))}]\n{self.text}"


class Entries(list[Entry]):
    """Entries in order. As text: each with its head, with a blank line between them."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


def transcript(row: JsonObject) -> Said:
    """Return the output of the model and the tools in a scored row, as entries for the page."""
    return _fitted(output_entries(row))


def prompt(row: JsonObject) -> Said:
    """Return the prompt of the model, as entries for the page."""
    return _fitted(prompt_entries(row))


def output_entries(row: JsonObject) -> Entries:
    """Return the output of the model and the tools in a scored row, whole."""
    response = row.get("response")
    output = response.get("output") if isinstance(response, Mapping) else response
    return Entries(_entries(output, role="assistant"))


def prompt_entries(row: JsonObject) -> Entries:
    """Return the prompt of the model, whole. The first entry has the instructions, if any."""
    params = row.get("responses_create_params")
    if not isinstance(params, Mapping):
        return Entries()
    entries = Entries(_entries(params.get("input"), role="user"))
    instructions = params.get("instructions")
    if isinstance(instructions, str) and instructions:
        entries.insert(0, Entry("system", "", instructions))
    return entries


def question(row: JsonObject) -> str:
    """Return the beginning of the last user message."""
    params = row.get("responses_create_params")
    conversation = params.get("input") if isinstance(params, Mapping) else None
    users = [entry.text for entry in _entries(conversation, role="user") if entry.kind == "user"]
    return users[-1][:QUESTION_CHARACTERS] if users else ""


def snippets(questions: Sequence[str]) -> list[str]:
    """Return one short line per question. Where questions begin alike, as those of a template do,
    the common beginning is left out and the line starts where they differ.
    """
    groups: dict[str, list[str]] = {}
    for text in questions:
        groups.setdefault(text[:_ALIKE], []).append(text)
    cuts = {beginning: _common_words(texts) for beginning, texts in groups.items()}
    return [_snippet(text, cuts[text[:_ALIKE]]) for text in questions]


def _common_words(texts: Sequence[str]) -> int:
    """Return the length of the common beginning of different texts, up to the start of a word."""
    low, high = min(texts), max(texts)
    # the first and the last in order differ where any two do
    pairs = zip(low, high, strict=False)
    common = "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if low == high or len(common) < _ALIKE:
        return 0
    return len(re.sub(r"\S+$", "", common))


def _snippet(text: str, cut: int) -> str:
    remainder = text[cut:].strip()
    return visible_line(f"… {remainder}" if cut and remainder else text, SNIPPET_CHARACTERS)


def offered_tools(row: JsonObject) -> list[list[str]]:
    """Return the tools that the model was offered: name, description and parameters of each."""
    tools = _tools(row.get("response")) or _tools(row.get("responses_create_params"))
    return [
        [
            visible_line(str(tool.get("name") or tool.get("type") or ""), 80),
            visible(str(tool.get("description") or ""))[:ENTRY_CHARACTERS],
            visible(_json(tool.get("parameters")))[:ENTRY_CHARACTERS],
        ]
        for tool in tools
    ]


def _tools(holder: Any) -> list[Mapping[str, Any]]:
    tools = holder.get("tools") if isinstance(holder, Mapping) else None
    return [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []


def result_fields(row: JsonObject) -> list[list[str]]:
    """Return names and values of the fields that the verifier added, and why a response is
    incomplete or failed.
    """
    fields = {name: value for name, value in row.items() if name not in _NOT_FIELDS}
    parts = fields.pop(REWARD_COMPONENTS, None)
    if isinstance(parts, Mapping):
        fields |= {f"{REWARD_COMPONENTS}.{name}": value for name, value in parts.items()}
    response = row.get("response")
    if isinstance(response, Mapping):
        fields |= {
            f"response.{name}": response[name]
            for name in ("incomplete_details", "error")
            if response.get(name)
        }
    first_fields = sorted(fields.items())[:MOST_FIELDS]
    return [[visible_line(name, 80), _value(value)] for name, value in first_fields]


def _entries(items: Any, *, role: str) -> Iterator[Entry]:
    if isinstance(items, str):
        yield Entry(role, "", items)
    elif isinstance(items, Sequence):
        for item in items:
            yield _entry(item)
    elif items is not None:
        yield Entry("other", "", _json(items))


def _entry(item: Any) -> Entry:
    if not isinstance(item, Mapping):
        return Entry("other", "", _json(item))
    kind = item.get("type") or "message"
    if kind == "message" and "content" in item:
        return Entry(_role(item.get("role")), "", _text(item["content"]))
    if kind == "reasoning":
        parts = [part for part in (item.get("summary"), item.get("content")) if part]
        return Entry("reasoning", "", "\n\n".join(map(_text, parts)))
    if kind == "function_call":
        return Entry("call", str(item.get("name", "")), _text(item.get("arguments")))
    if kind == "function_call_output":
        return Entry("result", "", _text(item.get("output")))
    return Entry("other", str(kind), _json(item))


def _role(role: Any) -> str:
    known_roles = {"user", "assistant", "system", "developer", "tool"}
    return role if isinstance(role, str) and role in known_roles else "other"


def _text(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n\n".join(map(_part, content))
    return "" if content is None else _json(content)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for name in ("text", "refusal"):
            if isinstance(part.get(name), str):
                return str(part[name])
        if "image" in str(part.get("type")):
            return "[image]"
    return _json(part)


def _fitted(entries: Iterator[Entry] | Sequence[Entry]) -> Said:
    """Cut each entry to length; keep as many of the first and last entries as fit."""
    cut = [_cut(entry) for entry in entries]
    head, tail = 0, len(cut)
    room = TRANSCRIPT_CHARACTERS
    while head < tail:
        # the end first: that is where the answer is
        at = tail - 1 if len(cut) - tail <= head else head
        room -= _size(cut[at])
        if room < 0:
            break
        head, tail = (head, tail - 1) if at == tail - 1 else (head + 1, tail)
    gap = [[tail - head]] if tail > head else []
    return [*cut[:head], *gap, *cut[tail:]]


def _cut(entry: Entry) -> list[Any]:
    text, name = entry.text, visible_line(entry.name, 80)
    omitted = len(text) - ENTRY_CHARACTERS
    if omitted <= 0:
        return [entry.kind, name, visible(text)]
    end = int(ENTRY_CHARACTERS * _KEPT_AT_THE_END)
    head, tail = text[: ENTRY_CHARACTERS - end], text[-end:]
    return [entry.kind, name, visible(head), omitted, visible(tail)]


def _size(entry: Sequence[Any]) -> int:
    return sum(len(part) for part in entry if isinstance(part, str))


def _value(value: Any) -> str:
    return visible_line(value if isinstance(value, str) else _json(value), FIELD_CHARACTERS)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

"""Convert a record to a row: map columns to fields, and chats to items of the Responses API."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from palestra.config import did_you_mean
from palestra.datasets.prompts import PromptTemplate, fill_row
from palestra.schema import CREATE_PARAMS, EXPECTED_ANSWER, JsonDict, JsonObject

CHATS: Final = ("messages", "conversations", "conversation")
QUESTIONS: Final = ("question", "problem", "prompt", "query", "instruction", "input")
ANSWERS: Final = (EXPECTED_ANSWER, "answer", "target", "label", "output")


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The mapping from columns to row fields. Other columns keep their names.

    `fields`: row field -> column, or a dotted path to a nested value. `answer`: the column of the
    expected answer. `prompt`: a template that is filled from the row's fields; without one, the
    request comes from the row's chat or question.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    answer: str | None = None
    prompt: PromptTemplate | None = None

    def row(self, record: Any, *, request: bool = True, guess: bool = True) -> JsonDict:
        """Convert a record to a row. Raises ValueError that states what is missing or wrong.

        `request`: whether a chat or a question becomes the request. `guess`: whether a column with a
        usual name of answers becomes the expected answer.
        """
        if not isinstance(record, Mapping):
            raise ValueError("is not an object")  # noqa: TRY004  # data, not code
        columns = {**self.fields, **({EXPECTED_ANSWER: self.answer} if self.answer else {})}
        mapped = {name: _value(record, column, name) for name, column in columns.items()}
        unmapped = {name: value for name, value in record.items() if name not in columns.values()}
        row = {**unmapped, **mapped}
        if guess and not self.answer and EXPECTED_ANSWER not in row:
            _guess_answer(row)
        if self.prompt is not None:
            row.pop(CREATE_PARAMS, None)
            filled_row = fill_row(self.prompt, row)
            _refuse_blank_question(row, filled_row, self.prompt)
            return _request_first(filled_row)
        if isinstance(row.get(CREATE_PARAMS), Mapping) or not request:
            return row
        return _request_first(_asking(row))


def _value(record: JsonObject, column: str, field_name: str) -> Any:
    if column in record:
        return record[column]
    value: Any = record
    for step in column.split("."):
        if not isinstance(value, Mapping) or step not in value:
            if field_name in record and field_name != EXPECTED_ANSWER:
                raise ValueError(
                    f"has no column {column!r}, but {field_name!r}; write --map FIELD=COLUMN, such "
                    f"as --map {column}={field_name}"
                )
            raise ValueError(f"has no column {column!r}{did_you_mean(column, record)}")
        value = value[step]
    return value


def _asking(row: JsonDict) -> JsonDict:
    """Return the row with request parameters built from its chat, else from its question."""
    chat = _first(row, CHATS) or ("prompt" if isinstance(row.get("prompt"), list) else None)
    if chat is not None:
        try:
            items, answer = split_answer(items_of(row.pop(chat)))
        except ValueError as error:
            raise ValueError(f"/{chat} {error}") from error
        params: JsonDict = {"input": items}
        if isinstance(row.get("tools"), list):
            params["tools"] = tools_of(row.pop("tools"))
        return {
            **({EXPECTED_ANSWER: answer} if answer is not None else {}),
            **row,
            CREATE_PARAMS: params,
        }
    question = _first(row, QUESTIONS)
    if question is None or not isinstance(row[question], str):
        columns = ", ".join(sorted(row)) or "none"
        raise ValueError(
            f"has neither a chat ({CHATS[0]}) nor a question, and no prompt was given (fields: "
            f"{columns}); --map question=COLUMN says which it is"
        )
    if not row[question].strip():
        raise ValueError(f"/{question} is empty")
    message = {"role": "user", "content": row[question]}
    return {**row, CREATE_PARAMS: {"input": [message]}}


def _refuse_blank_question(row: JsonDict, filled_row: JsonDict, prompt: PromptTemplate) -> None:
    """Raise ValueError when the question that a prompt shows is empty, or the filled prompt is."""
    question = _first(row, QUESTIONS)
    is_shown = question in prompt.fields()
    if question is not None and is_shown and not str(row[question]).strip():
        raise ValueError(f"/{question} is empty")
    if not filled_row[CREATE_PARAMS]["input"][-1]["content"].strip():
        raise ValueError("the prompt is empty")


def _guess_answer(row: JsonDict) -> None:
    answer = _first(row, ANSWERS)
    if answer is not None:
        row[EXPECTED_ANSWER] = row.pop(answer)


def _first(row: JsonObject, names: Sequence[str]) -> str | None:
    return next((name for name in names if row.get(name) is not None), None)


def _request_first(row: JsonDict) -> JsonDict:
    return {CREATE_PARAMS: row[CREATE_PARAMS], **row}


_ROLES: Final = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}


def items_of(messages: Any) -> list[JsonDict]:
    """Convert chat messages, each `{role, content}` or `{from, value}`, to request items.

    Raises ValueError: `messages` is not a chat.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ValueError("is not a list of messages")
    try:
        items = [item for message in messages for item in _items(message)]
    except (AttributeError, TypeError) as error:
        raise ValueError("has a message that is not a chat message") from error
    if not items:
        raise ValueError("has only empty messages")
    return items


def _items(message: Any) -> Iterator[JsonDict]:
    if not isinstance(message, Mapping):
        raise ValueError("has a message that is not a JSON object")  # noqa: TRY004  # data, not code
    role = message.get("role") or message.get("from")
    content = message.get("content") if "content" in message else message.get("value")
    if role == "tool":
        output = content if isinstance(content, str) else orjson.dumps(content).decode()
        call_id = message.get("tool_call_id") or ""
        yield {"type": "function_call_output", "call_id": call_id, "output": output}
        return
    if content:
        parts = content if isinstance(content, str) else [_part(part) for part in content]
        yield {"role": _ROLES.get(str(role), role), "content": parts}
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        call_id = call.get("id") or ""
        name = function.get("name")
        yield {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}


def _part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "text":
        return {"type": "input_text", "text": part.get("text")}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        address = image.get("url") if isinstance(image, Mapping) else image
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    return part


def tools_of(tools: Any) -> list[Any]:
    """Convert Chat Completions tools to Responses API tools, which are one level flatter."""
    return [
        {"type": "function", **tool["function"]}
        if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping)
        else tool
        for tool in tools
    ]


def split_answer(items: list[JsonDict]) -> tuple[list[JsonDict], str | None]:
    """Split a chat into the model's input and the expected answer: the text of a final assistant
    message, if there is one.
    """
    last = items[-1]
    if last.get("role") == "assistant" and isinstance(last.get("content"), str) and items[1:]:
        return items[:-1], last["content"]
    return items, None

"""From a record to a row: which column is what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from palestra.config import nearest
from palestra.datasets.importing.chats import items_of, split_answer, tools_of
from palestra.datasets.prompts import PromptTemplate, fill_row
from palestra.schema import CREATE_PARAMS

ANSWER: Final = "expected_answer"
CHATS: Final = ("messages", "conversations", "conversation")
QUESTIONS: Final = ("question", "problem", "prompt", "query", "instruction", "input")
ANSWERS: Final = (ANSWER, "answer", "target", "label", "output")


@dataclass(frozen=True, slots=True)
class Columns:
    """How columns become fields of rows. Those not named here are kept as they are called.

    `fields`: field of the row -> column, or a path of names with dots. `answer`: the column of the
    expected answer. `prompt`: a template that is filled from the row's fields; without one, a chat or
    a question is the request.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    answer: str | None = None
    prompt: PromptTemplate | None = None

    def row(self, record: Any) -> dict[str, Any]:
        """The row of a record. Raises ValueError saying what is missing or wrong."""
        if not isinstance(record, Mapping):
            raise ValueError("is no object")  # noqa: TRY004  # data, not code
        wanted = {**self.fields, **({ANSWER: self.answer} if self.answer else {})}
        found = {name: _value(record, column) for name, column in wanted.items()}
        kept = {name: value for name, value in record.items() if name not in wanted.values()}
        row = {**kept, **found}
        if not self.answer and ANSWER not in row:
            _guess_answer(row)
        if self.prompt is not None:
            row.pop(CREATE_PARAMS, None)
            return _request_first(fill_row(self.prompt, row))
        if isinstance(row.get(CREATE_PARAMS), Mapping):
            return row
        return _request_first(_asking(row))


def _value(record: Mapping[str, Any], column: str) -> Any:
    if column in record:
        return record[column]
    value: Any = record
    for step in column.split("."):
        if not isinstance(value, Mapping) or step not in value:
            near = nearest(column, record)
            raise ValueError(
                f"has no column {column!r}" + (f"; did you mean {near!r}?" if near else "")
            )
        value = value[step]
    return value


def _asking(row: dict[str, Any]) -> dict[str, Any]:
    """With a request made of its chat, else of its question."""
    chat = _first(row, CHATS) or ("prompt" if isinstance(row.get("prompt"), list) else None)
    if chat is not None:
        try:
            items, answer = split_answer(items_of(row.pop(chat)))
        except ValueError as error:
            raise ValueError(f"/{chat} {error}") from error
        params: dict[str, Any] = {"input": items}
        if isinstance(row.get("tools"), list):
            params["tools"] = tools_of(row.pop("tools"))
        return {**({ANSWER: answer} if answer is not None else {}), **row, CREATE_PARAMS: params}
    question = _first(row, QUESTIONS)
    if question is None or not isinstance(row[question], str):
        columns = ", ".join(sorted(row)) or "none"
        raise ValueError(
            f"has neither a chat ({CHATS[0]}) nor a question, and no prompt was given (fields: "
            f"{columns}); --map question=COLUMN says which it is"
        )
    message = {"role": "user", "content": row[question]}
    return {**row, CREATE_PARAMS: {"input": [message]}}


def _guess_answer(row: dict[str, Any]) -> None:
    found = _first(row, ANSWERS)
    if found is not None:
        row[ANSWER] = row.pop(found)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if row.get(name) is not None), None)


def _request_first(row: dict[str, Any]) -> dict[str, Any]:
    return {CREATE_PARAMS: row[CREATE_PARAMS], **row}

r"""Cases: answers whose rewards somebody has written down.

They come from `data/verifier_cases.jsonl` beside an environment's example rows, one a line:

    {"row": 0, "answer": "The answer is \\boxed{4}.", "reward": 1.0, "note": "as asked for"}

`row` is the number of an example row, or a task row itself. `answer` is a text, or a list of
texts where turns are taken; `output` gives the items of a response instead. From an answer with
the highest reward wrong ones are derived, unless the case says `"derive": false`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palestra.errors import InputDataError
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject, Response, read_jsonl, response_of


@dataclass(frozen=True, slots=True)
class ExaminationLimits:
    """Bounds of the examination; times in seconds."""

    timeout_s: float = 60.0
    """For one answer."""
    repeats: int = 3
    """How often the same answer is verified."""
    blocked_s: float = 0.1
    """For how long an ordinary answer may hold the event loop."""
    blocked_by_hostile_s: float = 0.5
    """For how long a hostile one may."""
    hostile_s: float = 120.0
    """For all hostile answers together; what is left then is not tried."""
    largest: int = 1_000_000
    """Characters of the largest hostile text."""
    frozen_s: float = 20.0
    """After so long the rest is given up: the loop may never come back."""

    @property
    def given_up_after_s(self) -> float:
        """The same, and no longer than one answer may take and a second."""
        return min(self.frozen_s, self.timeout_s + 1.0)


CASES_FILE = "verifier_cases.jsonl"


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to a row, and the reward it must get. `number`: the row's, when it has one."""

    task: JsonObject
    response: Response
    reward: float
    number: int | None = None
    note: str = ""
    derive: bool = True


class _CaseLine(BaseModel):
    """A line of the file."""

    model_config = ConfigDict(extra="forbid")

    row: int | JsonDict
    answer: str | list[str] | None = None
    output: list[JsonDict] | None = None
    reward: float = Field(allow_inf_nan=False)
    note: str = ""
    derive: bool = True

    @model_validator(mode="after")
    def _has_one_answer(self) -> "_CaseLine":
        if (self.answer is None) == (self.output is None):
            raise ValueError("a case has an `answer` or an `output`, and not both")
        return self

    def response(self) -> Response:
        if self.output is not None:
            bare = response_of().model_dump(exclude_unset=True)
            return Response.model_validate({**bare, "output": self.output})
        texts = [self.answer] if isinstance(self.answer, str) else self.answer or []
        return response_of(*texts)


def has_numbered_rows(path: Path) -> bool:
    """Whether a file of cases names example rows by their numbers."""
    rows = (line.row for line in read_jsonl(path))
    return any(isinstance(row, dict) and isinstance(row.get("row"), int) for row in rows)


def load_cases(path: Path, rows: Sequence[JsonObject]) -> list[Case]:
    """The cases of a file. Raises InputDataError naming every line that is wrong."""
    cases: list[Case] = []
    problems: list[str] = []
    for line in read_jsonl(path):
        try:
            case_line = _CaseLine.model_validate(line.row)
            cases.append(_case(case_line, rows))
        except ValidationError as error:
            problems_text = "; ".join(
                f"{_place(e)}{e['msg']}" for e in error.errors(include_url=False)
            )
            problems.append(f"line {line.number}: {problems_text}")
        except LookupError as error:
            problems.append(f"line {line.number}: {error.args[0]}")
    if problems:
        raise InputDataError(f"{path}: " + "; ".join(problems[:20]))
    return cases


def _place(error: Any) -> str:
    return "".join(f"{part}." for part in error["loc"]).rstrip(".") + ": " if error["loc"] else ""


def _case(case_line: _CaseLine, rows: Sequence[JsonObject]) -> Case:
    if isinstance(case_line.row, dict):
        task: JsonObject = {CREATE_PARAMS: {"input": []}, **case_line.row}
        number = None
    elif 0 <= case_line.row < len(rows):
        task, number = rows[case_line.row], case_line.row
    else:
        raise LookupError(f"row {case_line.row} is none of the {len(rows)} example rows")
    return Case(
        task, case_line.response(), case_line.reward, number, case_line.note, case_line.derive
    )

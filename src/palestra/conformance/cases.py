r"""Cases: answers whose rewards an author has written down.

They are in `data/verifier_cases.jsonl`, in the folder of the example rows, one case per line:

    {"row": 0, "answer": "The answer is \\boxed{4}.", "reward": 1.0, "note": "as asked for"}

`row` is the number of an example row, or a whole task row. `answer` is a text, or a list of texts
for an environment with turns. `output` gives the items of a response instead. Wrong answers are
made from each answer with the highest reward, unless the case has `"derive": false`.
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
    """The limits of an examination. Times are in seconds."""

    timeout_s: float = 60.0
    """The time limit for one answer."""
    repeats: int = 3
    """How many times the same answer is verified."""
    blocked_s: float = 0.1
    """How long an ordinary answer may block the event loop."""
    blocked_by_hostile_s: float = 0.5
    """How long a hostile answer may block the event loop."""
    hostile_s: float = 120.0
    """The time limit for all hostile answers together. The remaining ones are skipped."""
    hostile_answer_s: float = 15.0
    """The time limit for one hostile answer to an environment in one file. Servers have limits of
    their own, which may be longer, and `timeout_s` holds for them."""
    largest: int = 1_000_000
    """The size of the largest hostile text, in characters."""
    frozen_s: float = 20.0
    """After a block of this length the examination ends: the event loop may never run again."""

    @property
    def given_up_after_s(self) -> float:
        """The shorter of `frozen_s` and `timeout_s` plus one second."""
        return min(self.frozen_s, self.timeout_s + 1.0)


CASES_FILE = "verifier_cases.jsonl"


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to a row, and the reward it must get. `number`: the number of the example row, if
    it is one.
    """

    task: JsonObject
    response: Response
    reward: float
    number: int | None = None
    note: str = ""
    derive: bool = True


class _CaseLine(BaseModel):
    """One line of the file of cases."""

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
    """Whether a file of cases refers to example rows by their numbers."""
    rows = (line.row for line in read_jsonl(path))
    return any(isinstance(row, dict) and isinstance(row.get("row"), int) for row in rows)


def load_cases(path: Path, rows: Sequence[JsonObject]) -> list[Case]:
    """Read the cases of a file. Raises InputDataError, which lists every wrong line."""
    cases: list[Case] = []
    problems: list[str] = []
    for line in read_jsonl(path):
        try:
            case_line = _CaseLine.model_validate(line.row)
            cases.append(_case(case_line, rows))
        except ValidationError as error:
            problems_text = "; ".join(
                f"{_pointer(e)}{e['msg']}" for e in error.errors(include_url=False)
            )
            problems.append(f"line {line.number}: {problems_text}")
        except LookupError as error:
            problems.append(f"line {line.number}: {error.args[0]}")
    if problems:
        raise InputDataError(f"{path}: " + "; ".join(problems[:20]))
    return cases


def _pointer(error: Any) -> str:
    return "".join(f"{part}." for part in error["loc"]).rstrip(".") + ": " if error["loc"] else ""


def _case(case_line: _CaseLine, rows: Sequence[JsonObject]) -> Case:
    if isinstance(case_line.row, dict):
        task: JsonObject = {CREATE_PARAMS: {"input": []}, **case_line.row}
        number = None
    elif 0 <= case_line.row < len(rows):
        task, number = rows[case_line.row], case_line.row
    else:
        raise LookupError(f"row {case_line.row} is not one of the {len(rows)} example rows")
    return Case(
        task, case_line.response(), case_line.reward, number, case_line.note, case_line.derive
    )

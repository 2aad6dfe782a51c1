"""Tools that break are found, whether or not a right answer calls them."""

from typing import Annotated, Any, Literal

import pytest
from planted import BrokenTool
from pydantic import BaseModel, Field
from test_planted_bugs import examine

from palestra.conformance.tool_steps import arguments_for
from palestra.server import tool_schema


class Stay(BaseModel):
    """Nested arguments."""

    city: str
    nights: Annotated[int, Field(ge=2, le=9)]
    onward: "Stay | None" = None


def plain(name: str, count: int, share: float, *, sure: bool) -> None: ...
def bounded(
    n: Annotated[int, Field(gt=3)],
    even: Annotated[int, Field(multiple_of=2, ge=4)],
    small: Annotated[float, Field(lt=0.5)],
    code: Annotated[str, Field(min_length=6, max_length=7)],
) -> None: ...
def chosen(unit: Literal["C", "F"], either: int | str, perhaps: str | None) -> None: ...
def nested(stay: Stay, stays: list[Stay], scores: dict[str, float]) -> None: ...
def optional(page: int = 1) -> None: ...


@pytest.mark.parametrize("tool", [plain, bounded, chosen, nested, optional])
def test_arguments_that_are_made_for_a_tool_fit_it(tool: Any) -> None:
    from palestra.server.tools import arguments_model

    made = arguments_for(tool_schema(tool)["parameters"])

    arguments_model(tool).model_validate(made)


@pytest.mark.slow
def test_a_tool_that_breaks_is_told_with_the_call_that_did_it() -> None:
    check = next(check for check in examine(BrokenTool).checks if check.name == "tools")

    (finding,) = check.findings
    assert "the tool look_up raised KeyError: " in finding.problem
    assert "ToolError" in finding.problem
    assert "look_up(" in finding.answer

"""`ArcServer`: the model's grid against the task's, cell by cell."""

import re
from typing import Annotated, ClassVar, TypeAlias

import orjson
from pydantic import Field

from palestra.resources_servers.latex_text import last_box
from palestra.schema import (
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    encode_json,
    response_of,
)
from palestra.server import ResourcesServer, ResourcesServerConfig, RewardRules

Grid: TypeAlias = list[list[Annotated[int, Field(ge=0, le=9)]]]

LARGEST_SIDE = 30
"""Cells of the longest row or column that the tasks have."""

_GRID = re.compile(r"\[\s*+(?:\[[0-9,\s]*+\]\s*+,?+\s*+)++\]")
_AROUND = " \t\r`*$.,;:"
"""What may stand on the lines of a grid that stands alone."""
_MOST_AROUND = 20
_LONGEST = 2 * LARGEST_SIDE * (LARGEST_SIDE + 2)
"""Characters of the largest grid, written without blanks."""


class ArcVerifyRequest(VerifyRequest):
    """What a row must say for its grid to be judged."""

    expected_output: Grid = Field(min_length=1)
    """Rows of colours, 0 to 9."""


class ArcServer(ResourcesServer):
    """Judges the grid in the last message."""

    config: ResourcesServerConfig

    reward_rules: ClassVar[RewardRules] = RewardRules(
        unsure={"mentioned": "the last grid of the text counts, also without a box"}
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        """The expected grid, in a box."""
        grid = encode_json(row["expected_output"]).decode()
        return response_of(f"\\boxed{{{grid}}}")

    async def verify(self, body: ArcVerifyRequest) -> VerifyResponse:
        """1.0 when every cell is right; else 0.0, also when there is no grid."""
        found = grid_of(body.response.final_text)
        return self.reply(
            body,
            float(found == body.expected_output),
            predicted_output=found,
            extraction_successful=found is not None,
        )


def grid_of(text: str) -> Grid | None:
    r"""The grid that the text ends with, or None.

    It is what the last closed `\boxed{…}` holds; without a box that holds one, the last grid in the
    text, so that a model is judged by its grid and not by its LaTeX. One row within a sentence is
    a quotation, unless there is nothing else.
    """
    box = last_box(text)
    boxed = None if box is None else _last_written(box)
    return boxed if boxed is not None else _last_written(text)


def _last_written(text: str) -> Grid | None:
    whole = quoted = None
    for match in _GRID.finditer(f"\n{text}\n"):
        grid = _read("".join(match[0].split()))
        if grid is None:
            continue
        if len(grid) > 1 or _stands_alone(match):
            whole = grid
        else:
            quoted = grid
    return whole or quoted


def _stands_alone(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    before = text[max(0, start - _MOST_AROUND) : start].rstrip(_AROUND)
    return before.endswith("\n") and text[end : end + _MOST_AROUND].lstrip(_AROUND)[:1] == "\n"


def _read(written: str) -> Grid | None:
    """The grid, when it is one: rows of equal length, colours of one digit."""
    if len(written) > _LONGEST:
        return None
    try:
        rows = orjson.loads(written)
    except orjson.JSONDecodeError:  # "[1,,2]" or "[01]"
        return None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 1 <= widths.pop() <= LARGEST_SIDE or len(rows) > LARGEST_SIDE:
        return None
    if any(not 0 <= cell <= 9 for row in rows for cell in row):
        return None
    return [list(row) for row in rows]

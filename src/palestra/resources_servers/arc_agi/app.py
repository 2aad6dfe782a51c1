"""`ArcServer`: compares the model's grid with the task's expected grid, cell by cell."""

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
"""The number of cells in the longest row or column of any task."""

_GRID = re.compile(r"\[\s*+(?:\[[0-9,\s]*+\]\s*+,?+\s*+)++\]")
_AROUND = " \t\r`*$.,;:"
"""The characters that may surround a grid on its lines when the grid stands alone."""
_MOST_AROUND = 20
_LONGEST = 2 * LARGEST_SIDE * (LARGEST_SIDE + 2)
"""The number of characters of the largest grid, written without blanks."""


class ArcVerifyRequest(VerifyRequest):
    """The fields that a row needs for its grid to be verified."""

    expected_output: Grid = Field(min_length=1)
    """The right grid: rows of colours, each 0 to 9."""


class ArcServer(ResourcesServer):
    """A resources server that verifies the grid in the model's last message."""

    config: ResourcesServerConfig

    reward_rules: ClassVar[RewardRules] = RewardRules(
        unsure={"mentioned": "the last grid of the text counts, also without a box"}
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        r"""Return a response with the expected grid in a `\boxed{}`."""
        grid = encode_json(row["expected_output"]).decode()
        return response_of(f"\\boxed{{{grid}}}")

    async def verify(self, body: ArcVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when every cell is right; else 0.0, also when the message has no grid."""
        grid = grid_of(body.response.final_text)
        return self.reply(
            body,
            float(grid == body.expected_output),
            predicted_output=grid,
            extraction_successful=grid is not None,
        )


def grid_of(text: str) -> Grid | None:
    r"""Return the grid that `text` gives as its answer; None when there is no grid.

    The grid in the last closed `\boxed{…}` counts first. Without such a box, the last grid in the
    text counts, so a model is not penalised for its LaTeX. A grid of one row inside a sentence is
    taken for a quotation, and counts only when the text has no other grid.
    """
    box = last_box(text)
    boxed = None if box is None else _last_written(box)
    return boxed if boxed is not None else _last_written(text)


def _last_written(text: str) -> Grid | None:
    last_closed = quoted = None
    for match in _GRID.finditer(f"\n{text}\n"):
        grid = _read_grid("".join(match[0].split()))
        if grid is None:
            continue
        if len(grid) > 1 or _stands_alone(match):
            last_closed = grid
        else:
            quoted = grid
    return last_closed or quoted


def _stands_alone(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    before = text[max(0, start - _MOST_AROUND) : start].rstrip(_AROUND)
    return before.endswith("\n") and text[end : end + _MOST_AROUND].lstrip(_AROUND)[:1] == "\n"


def _read_grid(written: str) -> Grid | None:
    """Parse `written` as a grid: rows of equal length, each cell one digit. None when it is not
    one.
    """
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

"""`ArcServer`: the model's grid against the task's, cell by cell."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from palestra.resources_servers.arc_agi.grids import Grid, grid_of
from palestra.schema import Response, VerifyRequest, VerifyResponse, encode_json, response_of
from palestra.serving import ResourcesServer, ResourcesServerConfig, RewardRules


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

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
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

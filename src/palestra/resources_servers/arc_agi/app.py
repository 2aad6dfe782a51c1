"""`ArcServer`: the model's grid against the task's, cell by cell."""

from pydantic import Field

from palestra.resources_servers.arc_agi.grids import Grid, grid_of
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.serving import ResourcesServer, ResourcesServerConfig


class ArcVerifyRequest(VerifyRequest):
    """What a row must say for its grid to be judged."""

    expected_output: Grid = Field(min_length=1)
    """Rows of colours, 0 to 9."""


class ArcServer(ResourcesServer):
    """Judges the grid in the last message."""

    config: ResourcesServerConfig

    async def verify(self, body: ArcVerifyRequest) -> VerifyResponse:
        """1.0 when every cell is right; else 0.0, also when there is no grid."""
        found = grid_of(body.response.final_text)
        return self.reply(
            body,
            float(found == body.expected_output),
            predicted_output=found,
            extraction_successful=found is not None,
        )

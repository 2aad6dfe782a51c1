"""`StringMatchServer`: is what a model gives as its answer the expected text?"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from palestra.metrics import compute_pass_majority_metrics
from palestra.resources_servers.key_metrics import key_metrics
from palestra.resources_servers.string_match.extraction import ExtractionMode, extracted
from palestra.schema import Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import ResourcesServer, ResourcesServerConfig


def _as_text(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


class StringMatchVerifyRequest(VerifyRequest):
    """A row: the answer, and where in the text it is looked for."""

    expected_answer: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"\S")]

    extraction_mode: ExtractionMode | None = None
    """Without one: the first of box, final answer and last line that there is."""

    case_sensitive: bool = False


WRITTEN: Mapping[str, str] = {
    "boxed": "\\boxed{?}",
    "final_answer": "I thought it over.\nFinal answer: ?",
    "last_line": "I thought it over.\n?",
    "full": "?",
}
"""How an answer is written for each way to extract it."""


class StringMatchServer(ResourcesServer):
    """Compares the answer in the last message."""

    config: ResourcesServerConfig

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        """The expected answer, where the row looks for it."""
        form = WRITTEN[row.get("extraction_mode") or "boxed"]
        return response_of(form.replace("?", str(row["expected_answer"])))

    async def verify(self, body: StringMatchVerifyRequest) -> VerifyResponse:
        """1.0 when the answer is the expected one; else 0.0."""
        answer = extracted(body.response.final_text, body.extraction_mode)
        if answer is None:
            return self.reply(body, 0.0, extracted_answer=None)
        right = answer.says(body.expected_answer, case_sensitive=body.case_sensitive)
        return self.reply(body, float(right), extracted_answer=answer.bare or answer.written)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """pass@k, its averages, and majority@k over the answers; in percent."""
        return compute_pass_majority_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        """Average, best and majority of as many attempts as there are."""
        return key_metrics(agent_metrics, majority=True)

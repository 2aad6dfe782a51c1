"""`XlamServer`: compares the calls of the trajectory with the calls that answer the question.

The order of calls does not count. A call made twice counts twice. The calls must be exactly the
expected ones.
"""

from palestra.resources_servers.arguments import Called, ExpectedCall
from palestra.schema import (
    FunctionCall,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    called,
    response_of,
)
from palestra.server import ResourcesServer, ResourcesServerConfig


class XlamVerifyRequest(VerifyRequest):
    """The fields that a row needs for its calls to be verified."""

    expected_answers: list[ExpectedCall]
    """The calls that answer the question; empty when the model must call nothing."""


class XlamServer(ResourcesServer):
    """A resources server that verifies every function call of the trajectory."""

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the expected calls."""
        expected = enumerate(row["expected_answers"])
        return response_of(
            *(
                called(call["name"], call["arguments"], f"call_{number}")
                for number, call in expected
            )
        )

    async def verify(self, body: XlamVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the calls are exactly the expected ones; else 0.0."""
        calls = [Called.of(item) for item in body.response.output if isinstance(item, FunctionCall)]
        correct = matched(body.expected_answers, calls)
        expected = len(body.expected_answers)
        return self.reply(
            body,
            float(correct == expected == len(calls)),
            num_expected=expected,
            num_predicted=len(calls),
            num_correct=correct,
            predicted_calls=[{"name": call.name, "arguments": call.arguments} for call in calls],
        )


def matched(expected: list[ExpectedCall], calls: list[Called]) -> int:
    """Return how many expected calls were made. Each expected call matches at most one call."""
    unmatched = list(expected)
    for call in calls:
        at = next(
            (
                index
                for index, expected in enumerate(unmatched)
                if call.is_call(expected.name, expected.arguments)
            ),
            None,
        )
        if at is not None:
            del unmatched[at]
    return len(expected) - len(unmatched)

"""`XlamServer`: the calls of the trajectory against the calls that answer the question.

The order of calls does not matter, and a call that was made twice counts twice: what matters is
that the calls made are exactly the expected ones.
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
    """What a row must say for its calls to be judged."""

    expected_answers: list[ExpectedCall]
    """Empty when the right answer is to call nothing."""


class XlamServer(ResourcesServer):
    """Judges every function call of the trajectory."""

    config: ResourcesServerConfig

    def gold_response(self, row: JsonObject) -> Response | None:
        """The expected calls."""
        wanted = enumerate(row["expected_answers"])
        return response_of(
            *(called(call["name"], call["arguments"], f"call_{number}") for number, call in wanted)
        )

    async def verify(self, body: XlamVerifyRequest) -> VerifyResponse:
        """1.0 when the calls made are exactly the expected ones; else 0.0."""
        made = [Called.of(item) for item in body.response.output if isinstance(item, FunctionCall)]
        correct = matched(body.expected_answers, made)
        expected = len(body.expected_answers)
        return self.reply(
            body,
            float(correct == expected == len(made)),
            num_expected=expected,
            num_predicted=len(made),
            num_correct=correct,
            predicted_calls=[{"name": call.name, "arguments": call.arguments} for call in made],
        )


def matched(expected: list[ExpectedCall], made: list[Called]) -> int:
    """How many of the expected calls were made, each of them answering for one call."""
    left = list(expected)
    for call in made:
        at = next(
            (
                place
                for place, wanted in enumerate(left)
                if call.is_call(wanted.name, wanted.arguments)
            ),
            None,
        )
        if at is not None:
            del left[at]
    return len(expected) - len(left)

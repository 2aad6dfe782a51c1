"""The model looks up a value for each right word with one tool, then submits all values with
another.

The verifier reads the model's last call of `extract_synonym_values`, whether or not the call was
run. So a model may correct itself.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from palestra.schema import (
    FunctionCall,
    JsonObject,
    Response,
    VerifyRequest,
    VerifyResponse,
    called,
    response_of,
)
from palestra.server import ResourcesServer, tool

HAND_IN = "extract_synonym_values"


class SynonymVerifyRequest(VerifyRequest):
    """The fields that a row needs for its trajectory to be verified."""

    expected_synonym_values: list[int]
    """The values of the right words, in the order in which the prompt lists the words."""

    minefield_label_value: int | None = None
    """The value of the original term. A hasty model submits it instead of the values of the
    synonyms."""


class SynonymServer(ResourcesServer):
    """A resources server where a word's value is the sum of its code points, so no model can guess
    it.
    """

    repeatable: ClassVar[bool | None] = True

    @tool
    async def get_synonym_value(self, synonym: str) -> dict[str, int]:
        """Get the synonym value for a synonym.

        synonym: The synonym to get the value for.
        """
        return {"synonym_value": value_of(synonym)}

    @tool
    async def extract_synonym_values(self, synonym_values: list[int]) -> dict[str, bool]:
        """Extract the synonym values you retrieved for the term relevant to the user query.

        synonym_values: The synonym values corresponding to the term for the user query.
        """
        del synonym_values  # judged in `verify`, from the trajectory
        return {"success": True}

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response that looks up each right word, then submits all the values."""
        looked_up = [
            called("get_synonym_value", {"synonym": word}, f"call_{number}")
            for number, word in enumerate(row["expected_synonyms"])
        ]
        values = row["expected_synonym_values"]
        return response_of(*looked_up, called(HAND_IN, {"synonym_values": values}, "call_last"))

    async def verify(self, body: SynonymVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the submitted values are exactly the expected ones in order; else
        0.0.
        """
        expected = body.expected_synonym_values
        values = handed_in(body.response)
        accurate = values == expected
        mine = body.minefield_label_value
        return self.reply(
            body,
            float(accurate),
            parsed_synonym_values=values,
            accuracy=accurate,
            set_overlap=_overlap(values, expected),
            original_term_minefield_hit=mine in values and mine not in expected,
            order_instruction_following_failure=not accurate and sorted(values) == sorted(expected),
        )


def value_of(word: str) -> int:
    """Return the sum of the word's code points."""
    return sum(map(ord, word))


def handed_in(response: Response) -> list[int]:
    """Return the values of the last submission; empty when it is missing or not a list of integers."""
    last = next(_hand_ins(response), None)
    if last is None:
        return []
    try:
        arguments: Any = orjson.loads(last.arguments)
    except orjson.JSONDecodeError:
        return []
    values = arguments.get("synonym_values") if isinstance(arguments, dict) else None
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        return []
    return values


def _hand_ins(response: Response) -> Iterator[FunctionCall]:
    for item in reversed(response.output):
        if isinstance(item, FunctionCall) and item.name == HAND_IN:
            yield item


def _overlap(values: list[int], expected: list[int]) -> float:
    """Return the share of the expected values that the model submitted."""
    if not expected:
        return float(not values)
    return len(set(values) & set(expected)) / len(set(expected))

"""Look up a value for each right word with one tool, then hand all of them in with another.

A rollout is judged by the last call of `extract_synonym_values` that the model made, whether or
not it was run: a model may correct itself, and its last word counts.
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
    """What a row must say for its trajectory to be judged."""

    expected_synonym_values: list[int]
    """The right words' values, in the order the prompt lists the words."""

    minefield_label_value: int | None = None
    """The value of the term itself, which a hasty model hands in instead of its synonyms'."""


class SynonymServer(ResourcesServer):
    """A word's value is the sum of its characters' code points, which no model can guess."""

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
        """Each right word looked up, then all the values handed in."""
        looked_up = [
            called("get_synonym_value", {"synonym": word}, f"call_{number}")
            for number, word in enumerate(row["expected_synonyms"])
        ]
        values = row["expected_synonym_values"]
        return response_of(*looked_up, called(HAND_IN, {"synonym_values": values}, "call_last"))

    async def verify(self, body: SynonymVerifyRequest) -> VerifyResponse:
        """1.0 when exactly the expected values were handed in, in order; else 0.0."""
        expected = body.expected_synonym_values
        given = handed_in(body.response)
        accurate = given == expected
        mine = body.minefield_label_value
        return self.reply(
            body,
            float(accurate),
            parsed_synonym_values=given,
            accuracy=accurate,
            set_overlap=_overlap(given, expected),
            original_term_minefield_hit=mine in given and mine not in expected,
            order_instruction_following_failure=not accurate and sorted(given) == sorted(expected),
        )


def value_of(word: str) -> int:
    """The sum of the word's code points."""
    return sum(map(ord, word))


def handed_in(response: Response) -> list[int]:
    """The values of the last hand-in; empty when there is none, or it is no list of integers."""
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


def _overlap(given: list[int], expected: list[int]) -> float:
    """The share of the expected values that were handed in."""
    if not expected:
        return float(not given)
    return len(set(given) & set(expected)) / len(set(expected))

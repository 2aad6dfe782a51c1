"""How a scored rollout ended, read from its row in the same way by `collect`, `merge` and
`reverify`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from palestra.errors import Outcome
from palestra.schema import EMPTY_ANSWER, TOOL_FAILURES, field_of, is_truncated, says_nothing


class ScoredEnding(msgspec.Struct, frozen=True):
    """The data of one scored rollout that the accounting counts."""

    outcome: Outcome
    reward: float
    output_tokens: int = 0
    broken_tools: tuple[str, ...] = ()
    """For each tool call that broke: the tool and the exception type."""
    empty: bool = False
    """Whether the model returned no text and no tool call. The response may also be truncated,
    during reasoning."""


def ending_in(fields: Mapping[str, Any], reward: float) -> ScoredEnding:
    """Return the ending of a verify response or result row. Its fields may be objects or JSON text."""
    response = fields.get("response")
    truncated = is_truncated(response)
    output = field_of(response, "output")
    silent = isinstance(output, list) and says_nothing(output)
    return ScoredEnding(
        Outcome.TRUNCATED if truncated else Outcome.SCORED,
        reward,
        _output_tokens(response),
        _broken_tools(fields.get(TOOL_FAILURES)),
        # Who reads many rows leaves the outputs out, and goes by the mark.
        empty=silent or fields.get(EMPTY_ANSWER) is True,
    )


def _output_tokens(response: Any) -> int:
    tokens = field_of(field_of(response, "usage"), "output_tokens")
    return tokens if isinstance(tokens, int) else 0


def _broken_tools(faults: Any) -> tuple[str, ...]:
    """Return `look_up: KeyError` for each tool call that broke. Malformed entries are ignored,
    because environments write this field.
    """
    if not isinstance(faults, list):
        return ()
    return tuple(
        f"{fault['tool']}: {fault['type']}"
        for fault in faults
        if isinstance(fault, dict) and {"tool", "type"} <= fault.keys()
    )

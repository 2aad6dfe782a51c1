"""How a rollout with a reward ended: one reading of its row for `collect`, `merge`, `reverify`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from palestra.errors import Outcome
from palestra.schema import EMPTY_ANSWER, TOOL_FAILURES, field_of, is_truncated, says_nothing


class ScoredEnding(msgspec.Struct, frozen=True):
    """What the accounting counts of one scored rollout."""

    outcome: Outcome
    reward: float
    output_tokens: int = 0
    broken_tools: tuple[str, ...] = ()
    """Of each tool call that broke: the tool, and the exception's type."""
    empty: bool = False
    """Whether the model said nothing at all; it may have been truncated too, while it thought."""


def ending_in(fields: Mapping[str, Any], reward: float) -> ScoredEnding:
    """The ending of a verify response or of a result row; its parts may be objects or JSON."""
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
    """`look_up: KeyError` for each tool call that broke; authors may write there what they like."""
    if not isinstance(faults, list):
        return ()
    return tuple(
        f"{fault['tool']}: {fault['type']}"
        for fault in faults
        if isinstance(fault, dict) and {"tool", "type"} <= fault.keys()
    )

"""The settings of one endpoint that the conversion needs."""

from dataclasses import dataclass, field
from typing import Final, NoReturn

from palestra.errors import CallEvidence, FieldProblem, RowError
from palestra.schema import JsonObject

CHAT_ENDPOINT: Final = "a Chat Completions endpoint"


def refuse(pointer: str, expected: str, *, endpoint: str = CHAT_ENDPOINT) -> NoReturn:
    """Raise `RowError`: the field at `pointer` cannot be sent; `expected` says what can be sent
    instead. `endpoint`: what it cannot be sent to.
    """
    raise RowError(
        f"{pointer} cannot be sent to {endpoint}; expected: {expected}",
        evidence=CallEvidence(problems=(FieldProblem(pointer, expected),)),
    )


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """The message format that one endpoint expects, and the format of its answers."""

    uses_reasoning_parser: bool = False
    """Whether the endpoint removes reasoning from the text and returns it in separate fields."""
    uses_interleaved_reasoning: bool = True
    """Whether earlier turns are sent with their reasoning. Only used with a reasoning parser."""
    replace_developer_role_with_system: bool = False
    sequential_reasoning_allowed: bool = True
    """Whether a history may have two reasoning items in a row. If false, such rows are refused."""
    max_tokens_parameter: str = "max_tokens"
    """The endpoint's parameter for the maximum number of tokens in an answer."""
    chat_template_kwargs: JsonObject = field(default_factory=dict)
    extra_body: JsonObject = field(default_factory=dict)
    """Fields added to every request; the row's own values override them."""
    sampling_overrides: JsonObject = field(default_factory=dict)
    """Fields of every request that override the row's own values."""

"""What the conversion must know about an endpoint."""

from dataclasses import dataclass, field
from typing import NoReturn

from palestra.errors import ConfigError, Evidence, FieldProblem, RowError
from palestra.schema import JsonDict, JsonObject


def refuse(pointer: str, expected: str) -> NoReturn:
    """Say what of a request cannot be sent, and what could be instead. Raises `RowError`."""
    raise RowError(
        f"{pointer} cannot be sent to a Chat Completions endpoint; expected: {expected}",
        evidence=Evidence(problems=(FieldProblem(pointer, expected),)),
    )


def refuse_stream(extra_body: JsonDict | None) -> JsonDict | None:
    """The configured `extra_body`. Raises ConfigError where it asks for a stream."""
    if extra_body and extra_body.get("stream"):
        raise ConfigError(
            "extra_body.stream: true: every answer would be a stream, and is read in one piece",
            hint="take `stream` out of extra_body",
        )
    return extra_body


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """How one endpoint wants its messages and how it answers."""

    uses_reasoning_parser: bool = False
    """The endpoint takes reasoning out of the text and into fields of its own."""
    uses_interleaved_reasoning: bool = True
    """With a reasoning parser: earlier turns keep their reasoning; else they are sent without."""
    replace_developer_role_with_system: bool = False
    sequential_reasoning_allowed: bool = True
    """Two reasoning items may follow each other in a history; else such a row is refused."""
    max_tokens_parameter: str = "max_tokens"
    """What the endpoint calls the limit of an answer's tokens."""
    chat_template_kwargs: JsonObject = field(default_factory=dict)
    extra_body: JsonObject = field(default_factory=dict)
    """Fields of every request; whatever a row sets itself goes over them."""

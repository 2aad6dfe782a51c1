"""Token metadata: the ids and log probs that a model server in training adds to items and messages."""

from typing import Any

from pydantic import model_validator

from palestra.compat.openai_types.base import OpenAIModel, field_of, plain

REQUIRED_TOKEN_METADATA_FIELDS = frozenset(
    {"prompt_token_ids", "generation_token_ids", "generation_log_probs"}
)
"""The token fields that an item or a message has together, or not at all."""

TOKEN_METADATA_FIELDS = REQUIRED_TOKEN_METADATA_FIELDS | {"routed_experts"}
"""All token fields of an item or a message."""


def has_token_metadata(value: Any) -> bool:
    """Whether an item or a message has token fields."""
    if isinstance(value, dict) and TOKEN_METADATA_FIELDS.isdisjoint(value):
        return False
    return any(field_of(value, name) is not None for name in TOKEN_METADATA_FIELDS)


def token_metadata_of(value: Any) -> dict[str, Any]:
    """Return the token fields of an item or a message; empty when it has none.

    Raises ValueError: it has token fields, but not all of the required ones.
    """
    token_fields = {
        name: tokens
        for name in sorted(TOKEN_METADATA_FIELDS)
        if (tokens := field_of(value, name)) is not None
    }
    if token_fields and (missing := REQUIRED_TOKEN_METADATA_FIELDS - token_fields.keys()):
        raise ValueError(
            "Token metadata must include all required fields; missing: "
            + ", ".join(sorted(missing))
        )
    return token_fields


class TokenCarrier(OpenAIModel):
    """The base of items and messages. It has all required token fields, or no token field."""

    @model_validator(mode="before")
    @classmethod
    def _from_another_type(cls, value: Any) -> Any:
        # One validator in place of the base class's: each costs as much as a field.
        if type(value) is dict and TOKEN_METADATA_FIELDS.isdisjoint(value):
            return value
        token_metadata_of(value)
        return plain(value) if not isinstance(value, cls) else value


class TokenIDLogProbMixin(TokenCarrier):
    """The token fields of items and messages in training.

    `generation_log_probs`: one number for each of `generation_token_ids`. `routed_experts`: the
    experts that a mixture-of-experts model chose for each token.
    """

    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    generation_log_probs: list[float]
    routed_experts: Any = None

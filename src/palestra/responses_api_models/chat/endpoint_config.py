"""The settings that every model server in front of an endpoint has, whatever its protocol."""

import re

from pydantic import Field, field_validator

from palestra.config import MASK
from palestra.errors import ConfigError
from palestra.responses_api_models.chat.upstream import REQUEST_TIMEOUT_S
from palestra.schema import JsonDict
from palestra.server import ModelServerConfig


class EndpointConfig(ModelServerConfig):
    """How requests to an endpoint are made: fields and headers added to each, and its timeout."""

    extra_body: JsonDict | None = None
    """Fields added to every request, unless the row sets them itself."""
    default_headers: dict[str, str] = Field(default_factory=dict)
    request_timeout_s: float = Field(default=REQUEST_TIMEOUT_S, gt=0)
    """The timeout in seconds of one request to the endpoint; the rollout's deadline may be earlier.
    """

    @field_validator("base_url", "openai_base_url", check_fields=False)
    @classmethod
    def _with_scheme(cls, value: str | list[str]) -> str | list[str]:
        for url in [value] if isinstance(value, str) else value:
            if url and "://" not in url:
                text = re.sub("^[^/]*@", f"{MASK}@", url)  # no mask knows a password without ://
                raise ValueError(f"{text!r} is not a URL; write http://{text}")
        return value

    @field_validator("extra_body")
    @classmethod
    def _in_one_piece(cls, value: JsonDict | None) -> JsonDict | None:
        return refuse_stream(value, setting="extra_body")


def refuse_stream(fields: JsonDict | None, *, setting: str) -> JsonDict | None:
    """Return the configured `fields` of requests. Raises ConfigError: they set `stream`.

    `setting`: the name of the setting, for the message.
    """
    if fields and fields.get("stream"):
        raise ConfigError(
            f"{setting}.stream: true is not supported: answers are read in one piece",
            hint=f"remove `stream` from {setting}",
        )
    return fields

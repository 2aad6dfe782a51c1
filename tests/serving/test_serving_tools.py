"""A tool's schema comes from its signature and its docstring."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, PrivateAttr
from serving_servers import ask, server_of

from palestra.schema import VerifyRequest, VerifyResponse
from palestra.serving import ResourcesServer, Session, tool, tool_schema


class Weather(ResourcesServer):
    """Two tools, one of them inherited below."""

    @tool
    async def get_weather(
        self, city: str, session: Session, unit: Literal["C", "F"] = "C", days: int = 1
    ) -> dict[str, Any]:
        """Get the weather
        of a city.

        Asks nobody; makes it up.

        city: where to look
        :param days: how many days ahead
        """
        session.state["asked"] = city
        return {"city": city, "unit": unit, "days": days}

    @tool
    def at(self, place: Annotated[str, Field(description="a named place")]) -> str:
        """Say where."""
        return place

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


class Inherited(Weather):
    """Overrides nothing."""


def test_a_tool_s_schema_says_what_its_signature_and_docstring_say() -> None:
    assert tool_schema(Weather.get_weather) == {
        "type": "function",
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "where to look"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {
                    "type": "integer",
                    "default": 1,
                    "description": "how many days ahead",
                },
            },
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": False,
    }


def test_a_tool_without_optional_parameters_is_strict() -> None:
    schema = server_of(Weather).tools()["at"]

    assert schema["strict"] is True
    assert schema["parameters"]["required"] == ["place"]


def test_a_tool_without_parameters_has_an_empty_schema() -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    assert tool_schema(ping)["parameters"] == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_what_a_signature_spreads_is_no_parameter_of_the_tool() -> None:
    @tool
    def anything(word: str, *args: Any, **kwargs: Any) -> str:
        return word

    assert tool_schema(anything)["parameters"]["required"] == ["word"]


def test_tools_are_inherited() -> None:
    assert server_of(Inherited).tools().keys() == {"get_weather", "at"}


def test_a_tool_is_an_endpoint_whose_answer_is_text() -> None:
    reply = ask(server_of(Weather), "/get_weather", {"city": "Bergen"})

    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert orjson.loads(reply.body) == {"city": "Bergen", "unit": "C", "days": 1}


def test_a_word_is_answered_as_it_is() -> None:
    assert ask(server_of(Weather), "/at", {"place": "Åndalsnes"}).body.decode() == "Åndalsnes"


class Named(Weather):
    """An author's attributes, called as the framework's might be."""

    _sessions: dict[str, str] = PrivateAttr(default_factory=dict)
    _token: int = PrivateAttr(default=3)

    @tool
    def note(self, text: str, session: Session) -> str:
        """Keep it."""
        self._sessions[session.id] = text
        return f"{len(self._sessions)} {self._token}"


def test_attributes_of_an_author_take_no_place_of_the_framework_s() -> None:
    assert ask(server_of(Named), "/note", {"text": "x"}).body == b"1 3"

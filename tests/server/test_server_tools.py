"""A tool's schema comes from its signature and its docstring."""

import re
from typing import Annotated, Any, Literal

import orjson
import pytest
from pydantic import Field, PrivateAttr

from author_servers import ask, error_of, server_of, turn
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import (
    Environment,
    EnvironmentDefinition,
    ResourcesServer,
    Session,
    ToolError,
    tool,
    tool_schema,
)


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


class Broken(ResourcesServer):
    """Tools that raise: one on purpose, one of a bug."""

    @tool
    def refuse(self) -> str:
        """Refuse."""
        raise ToolError("there is no such room")

    @tool
    def look_up(self, name: str) -> str:
        """Look up a name that is not there."""
        return {"Rome": "sunny"}[name]

    async def verify(self, body: VerifyRequest) -> dict[str, Any]:
        return {**body.model_dump(), "reward": 0.0}


class Unfit(ResourcesServer):
    """Tools whose results are not JSON."""

    @tool
    def keyed(self) -> Any:
        """Return a mapping without texts as keys."""
        return {1j: 1}

    @tool
    def listed(self) -> Any:
        """Return a generator."""
        yield 1

    async def fetch(self) -> str:
        return "sunny"

    @tool
    async def fetched(self) -> Any:
        """Return a call that was not awaited."""
        return self.fetch()

    async def verify(self, body: VerifyRequest) -> dict[str, Any]:
        return {**body.model_dump(), "reward": 0.0}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "keyed",
            "env/keyed returned {1j: 1}, which is not JSON: the result has the key 1j, which is not a text",
        ),
        ("listed", "env/listed returned a generator, which is not JSON"),
        (
            "fetched",
            "env/fetched returned a call of Unfit.fetch that was not awaited, and not its result",
        ),
    ],
)
def test_a_result_that_is_not_json_is_named_with_the_tool_s_line(name: str, problem: str) -> None:
    error = error_of(ask(server_of(Unfit), f"/{name}", {}))

    assert error["message"] == problem
    assert error["type"] == "environment_error"
    line = getattr(Unfit, name).__code__.co_firstlineno
    assert error["traceback"] == f"{__file__}:{line} in {name}"


class Forgetful(ResourcesServer):
    """Tools that return None."""

    @tool
    def take(self, name: str) -> int:
        """Take a thing."""
        del name

    @tool
    def find(self) -> dict[str, int] | None:
        """Find a thing."""

    @tool
    def store(self) -> None:
        """Store a thing."""

    @tool
    def free(self):  # type: ignore[no-untyped-def]
        """Do something."""

    async def verify(self, body: VerifyRequest) -> dict[str, Any]:
        return {**body.model_dump(), "reward": 0.0}


def test_a_tool_that_forgets_its_return_has_failed_with_its_line() -> None:
    server = server_of(Forgetful)
    text = ask(server, "/take", {"name": "x"}, session_id="one").body.decode()
    row = orjson.loads(ask(server, "/verify", turn(), session_id="one").body)

    line = Forgetful.take.__code__.co_firstlineno
    [failure] = row["tool_failures"]
    assert text.startswith('{"error":"take returned None, and its annotation promises int: write')
    assert (failure["tool"], failure["at"]) == ("take", f"{__file__}:{line} in take")


@pytest.mark.parametrize("name", ["find", "store", "free"])
def test_a_tool_that_promises_nothing_may_return_none(name: str) -> None:
    assert ask(server_of(Forgetful), f"/{name}", {}).body == b"null"


def verified_after(*calls: tuple[str, dict[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """What the model read of each call, and the result row."""
    server = server_of(Broken)
    how = {"session_id": "one"}
    said = [ask(server, f"/{name}", arguments, **how).body.decode() for name, arguments in calls]
    row: dict[str, Any] = orjson.loads(ask(server, "/verify", turn(), **how).body)
    return said, row


def verified_with(call: tuple[str, dict[str, Any]], *, offered: str) -> dict[str, Any]:
    """The result row after a call, of a row that offers the model one tool."""
    server, how = server_of(Broken), {"session_id": "one"}
    ask(server, f"/{call[0]}", call[1], **how)
    offer = {"type": "function", "name": offered, "parameters": {"type": "object"}}
    body = {**turn(), "responses_create_params": {"input": "q", "tools": [offer]}}
    row: dict[str, Any] = orjson.loads(ask(server, "/verify", body, **how).body)
    return row


def test_a_bug_of_a_tool_is_told_to_the_model_and_to_the_row() -> None:
    said, row = verified_after(("look_up", {"name": "Oslo"}), ("look_up", {"name": "Rome"}))

    assert said == ['{"error":"KeyError: \'Oslo\'"}', "sunny"]
    [failure] = row["tool_failures"]
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ in look_up", failure.pop("at"))
    assert failure == {"tool": "look_up", "type": "KeyError", "message": "'Oslo'"}


def test_what_a_tool_refuses_on_purpose_is_no_failure_of_it() -> None:
    said, row = verified_after(("refuse", {}), ("look_up", {"nam": "Rome"}))

    assert said[0] == '{"error":"there is no such room"}'
    assert "rejects the body" in said[1]
    assert "tool_failures" not in row


def test_a_call_of_a_tool_that_the_row_offers_in_vain_is_in_the_row() -> None:
    row = verified_with(("look_upp", {"name": "Rome"}), offered="look_upp")

    [failure] = row["tool_failures"]
    assert (failure["tool"], failure["type"]) == ("look_upp", "UnknownTool")
    assert "did you mean 'look_up'?" in failure["message"]
    assert "at" not in failure


def test_a_call_of_a_tool_that_the_model_made_up_is_not_in_the_row() -> None:
    row = verified_with(("look_upp", {"name": "Rome"}), offered="look_up")

    assert "tool_failures" not in row


def test_a_row_lists_the_first_failures_of_a_tool_that_is_called_for_ever() -> None:
    _, row = verified_after(*[("look_up", {"name": "x" * 1000})] * 60)

    assert len(row["tool_failures"]) == 50
    assert len(row["tool_failures"][0]["message"]) == 500


@pytest.mark.parametrize(
    ("name", "is_warned"),
    [("größe", True), ("x" * 65, True), ("look_up2", False)],
)
def test_a_tool_with_a_name_that_providers_refuse_is_a_warning(name: str, is_warned: bool) -> None:
    def look(self: Any, number: int) -> int:
        """Look."""
        return number

    look.__name__ = name
    cls = type("Named", (Environment,), {name: tool(look), "verify": lambda self, answer: 1.0})
    warnings = EnvironmentDefinition.of(cls).warnings()

    assert [f"the tool {name} has a name that OpenAI" in text for text in warnings] == (
        [True] if is_warned else []
    )

"""The forms of an author's methods: each works as a tool and as a method, or is refused."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import orjson
import pytest
from environment_classes import with_methods

from author_servers import TASK, ask, nobody, server_of, turn
from palestra import Environment, environment, tool
from palestra.errors import ConfigError
from palestra.schema import JsonDict, VerifyRequest, VerifyResponse
from palestra.server import (
    EnvironmentConfig,
    EnvironmentDefinition,
    ResourcesServer,
    server_class_of,
)

HERE = Path(__file__).name
ROWS = [{"question": "?", "shelf": "of the row"}]


def find(self: Any, shelf: str, item: str) -> str:
    """Find an item."""
    return f"{shelf}/{item}"


def find_alone(shelf: str, item: str) -> str:
    """Find an item."""
    return f"{shelf}/{item}"


async def find_later(self: Any, shelf: str, item: str) -> str:
    """Find an item."""
    return f"{shelf}/{item}"


class Finder:
    """Find an item."""

    def __call__(self, item: str) -> str:
        return f"a/{item}"


class AsyncFinder(Finder):
    async def __call__(self, item: str) -> str:  # type: ignore[override]
        """Find an item."""
        return f"a/{item}"


class Marked:
    @tool
    def lookup_there(self, item: str) -> str:
        """Find an item."""
        return f"a/{item}"


def find_in_a(self: Any, item: str) -> str:
    """Find an item."""
    return f"a/{item}"


def copied(function: Any) -> Any:
    """A function of its own, because a mark stays."""

    @functools.wraps(function)
    def copy(*args: Any, **arguments: Any) -> Any:
        return function(*args, **arguments)

    return copy


FORMS = {
    "function": lambda: tool(find_in_a),
    "function of another name": lambda: tool(copied(find_in_a)),
    "lambda": lambda: tool(lambda self, item: f"a/{item}"),
    "partialmethod": lambda: tool(functools.partialmethod(find, shelf="a")),
    "partialmethod by position": lambda: tool(functools.partialmethod(find, "a")),
    "partialmethod of a tool": lambda: functools.partialmethod(tool(copied(find)), shelf="a"),
    "partialmethod of an async function": lambda: tool(functools.partialmethod(find_later, "a")),
    "partialmethod of a static method": lambda: tool(
        functools.partialmethod(staticmethod(find_alone), "a")
    ),
    "partial": lambda: tool(functools.partial(find_alone, shelf="a")),
    "partial by position": lambda: tool(functools.partial(find_alone, "a")),
    "partial of a method": lambda: tool(functools.partial(find, shelf="a")),
    "partial of a tool": lambda: functools.partial(tool(copied(find_alone)), shelf="a"),
    "static partial": lambda: staticmethod(tool(functools.partial(find_alone, shelf="a"))),
    "tool, then staticmethod": lambda: staticmethod(tool(lambda item: f"a/{item}")),
    "staticmethod, then tool": lambda: tool(staticmethod(lambda item: f"a/{item}")),
    "tool, then classmethod": lambda: classmethod(tool(lambda cls, item: f"a/{item}")),
    "classmethod, then tool": lambda: tool(classmethod(lambda cls, item: f"a/{item}")),
    "cached": lambda: tool(functools.lru_cache(find_in_a)),
    "method of another object": lambda: Marked().lookup_there,
    "object": lambda: tool(Finder()),
    "async object": lambda: tool(AsyncFinder()),
}


def typed(member: Any) -> Any:
    """The member, with types for the parameters of a lambda."""
    for layer in (member, getattr(member, "__func__", None)):
        if getattr(layer, "__name__", "") == "<lambda>":
            layer.__annotations__["item"] = str
    return member


async def answer_of(cls: type[Environment], path: str, arguments: JsonDict) -> Any:
    server = server_class_of(EnvironmentDefinition.of(cls))(
        config=EnvironmentConfig(name="e"), server_client=nobody()
    )
    answer = None
    for name, body in (("/seed_session", {**TASK, **ROWS[0]}), (path, arguments)):
        endpoint = server.typed_endpoint(name)
        assert endpoint is not None, f"{name} is missing"
        answer = await endpoint.invoke(body, session_id="s")
    await server.shut_down()
    return answer


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_tool_with_the_name_of_the_attribute(form: str) -> None:
    cls = with_methods(data=ROWS, lookup=typed(FORMS[form]()))

    [row] = EnvironmentDefinition.of(cls).rows()
    [entry] = row["responses_create_params"]["tools"]

    assert entry["name"] == "lookup"
    assert entry["parameters"]["properties"] == {"item": {"type": "string"}}
    assert asyncio.run(answer_of(cls, "/lookup", {"item": "key"})) == "a/key"


@pytest.mark.parametrize("form", ["partial", "partialmethod", "object", "async object", "cached"])
def test_the_description_of_a_tool_is_its_authors(form: str) -> None:
    definition = EnvironmentDefinition.of(with_methods(data=ROWS, lookup=FORMS[form]()))

    assert definition.warnings() == ()
    [row] = definition.rows()
    assert row["responses_create_params"]["tools"][0]["description"] == "Find an item."


def test_the_model_cannot_change_what_a_partial_fills() -> None:
    cls = with_methods(data=ROWS, lookup=FORMS["partial"]())

    answer = asyncio.run(answer_of(cls, "/lookup", {"item": "key", "shelf": "b"}))

    assert "Extra inputs are not permitted" in answer


class Configured(Environment):
    data: Any = ROWS
    prompt = "?"
    shelf: str = "a"

    @tool
    @classmethod
    def lookup(cls, item: str) -> str:
        """Find an item."""
        return f"{cls.shelf}/{item}"

    def verify(self) -> float:
        return 1.0


def test_a_class_method_reads_the_settings_of_the_run() -> None:
    definition = EnvironmentDefinition.of(Configured, settings={"shelf": "b"})

    assert definition.cls().lookup(item="key") == "b/key"  # type: ignore[attr-defined]


def wrong(make: Any) -> type[Environment]:
    return with_methods(data=ROWS, lookup=make())


@pytest.mark.parametrize(
    "make",
    [
        lambda: tool(Finder),
        lambda: tool(len),
        lambda: tool(property(find_in_a)),
        lambda: property(tool(copied(find_in_a))),
        lambda: tool(functools.cached_property(find_in_a)),
        lambda: tool(functools.singledispatchmethod(find_in_a)),
    ],
)
def test_a_tool_that_cannot_be_called_is_refused_with_its_line_and_what_to_write(make: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: ") as raised:
        EnvironmentDefinition.of(wrong(make))

    assert "def " in raised.value.hint


def test_a_partial_that_fills_the_object_is_refused_with_its_line() -> None:
    cls = with_methods(data=ROWS, lookup=tool(functools.partialmethod(find_alone, item="key")))

    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: Sums\.lookup\(shelf\) has no self"):
        EnvironmentDefinition.of(cls)


class Tools:
    """Tools for several environments."""

    @tool
    def lookup(self, item: str) -> str:
        """Find an item."""
        return f"a/{item}"


def test_a_tool_of_a_base_class_is_a_tool() -> None:
    cls = type("Sums", (Tools, with_methods(data=ROWS)), {})

    assert asyncio.run(answer_of(cls, "/lookup", {"item": "key"})) == "a/key"


def test_a_method_without_the_mark_in_the_place_of_a_tool_is_refused_with_its_line() -> None:
    cls = type("Sums", (Tools, with_methods(data=ROWS)), {"lookup": find})

    with pytest.raises(ConfigError, match="replaces the tool lookup of Tools") as raised:
        EnvironmentDefinition.of(cls)

    assert f"{HERE}:{find.__code__.co_firstlineno}: Sums.lookup" in raised.value.message
    assert "@tool" in raised.value.hint


def test_a_tool_within_a_function_of_another_decorator_is_refused_with_its_line() -> None:
    @tool
    def find(self: Any, item: str) -> str:
        """Find an item."""
        return item

    def counted(*args: Any, **fields: Any) -> Any:
        return find(*args, **fields)

    cls = type("Sums", (with_methods(data=ROWS),), {"find": counted})

    with pytest.raises(ConfigError, match="find is a tool in a function of another") as raised:
        EnvironmentDefinition.of(cls)

    assert f"{HERE}:{counted.__code__.co_firstlineno}: " in raised.value.message


def test_none_in_the_place_of_a_tool_removes_it() -> None:
    cls = type("Sums", (Tools, with_methods(data=ROWS)), {"lookup": None})

    assert EnvironmentDefinition.of(cls).tools == {}


def score(self: Any, answer: str, shelf: str) -> float:
    return float(shelf == "a")


def score_alone(answer: str, shelf: str) -> float:
    return float(shelf == "a")


class Scorer:
    def __call__(self, answer: str) -> float:
        return 1.0


@pytest.mark.parametrize(
    "verify",
    [
        functools.partialmethod(score, shelf="a"),
        functools.partial(score_alone, shelf="a"),
        staticmethod(functools.partial(score_alone, shelf="a")),
        functools.partial(score, shelf="a"),
        staticmethod(lambda answer: 1.0),
        classmethod(lambda cls, answer: 1.0),
        Scorer(),
    ],
)
def test_each_form_verifies_with_what_it_fills(verify: Any) -> None:
    definition = EnvironmentDefinition.of(with_methods(data=ROWS, verify=verify))

    assert len(list(definition.rows())) == 1
    reply = ask(server_of(server_class_of(definition)), "/verify", turn("4", **ROWS[0]))
    assert orjson.loads(reply.body)["reward"] == 1.0


@pytest.mark.parametrize("function", [functools.partial(score_alone, shelf="a"), Scorer()])
def test_each_form_is_decorated_as_an_environment(function: Any) -> None:
    definition = EnvironmentDefinition.of(environment(data=ROWS, prompt="?")(function))

    reply = ask(server_of(server_class_of(definition)), "/verify", turn("4", **ROWS[0]))
    assert orjson.loads(reply.body)["reward"] == 1.0


@pytest.mark.parametrize("verify", [Scorer, property(score)])
def test_a_verify_that_cannot_be_called_is_refused_with_its_line(verify: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: Sums\.verify is") as raised:
        EnvironmentDefinition.of(with_methods(data=ROWS, verify=verify))

    assert "def verify(self" in raised.value.hint


@pytest.mark.parametrize("function", [Scorer, Scorer().__call__])
def test_what_cannot_be_decorated_is_refused_with_its_line(function: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: @environment cannot decorate"):
        environment(data=ROWS, prompt="?")(function)


def test_a_setting_of_a_class_with_a_static_verify_is_an_attribute_to_write() -> None:
    with pytest.raises(ConfigError) as raised:
        EnvironmentDefinition.of(
            with_methods(data=ROWS, verify=staticmethod(lambda answer: 1.0)), settings={"level": 3}
        )

    assert "annotate an attribute" in raised.value.hint


class Cities(ResourcesServer):
    @tool
    @staticmethod
    def weather(city: str) -> str:
        """Say the weather."""
        return f"sunny in {city}"

    @tool
    @classmethod
    async def people(cls, city: str) -> str:
        """Count people."""
        return f"{cls.__name__} has {city}"

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def test_a_server_has_the_tools_that_need_no_object() -> None:
    server = server_of(Cities)

    assert list(server.tools()) == ["people", "weather"]
    assert ask(server, "/weather", {"city": "Rome"}).body == b"sunny in Rome"
    assert ask(server, "/people", {"city": "Rome"}).body == b"Cities has Rome"

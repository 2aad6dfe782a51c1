"""Methods that a rollout could not call, refused before anything runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from palestra import Environment, environment, tool
from palestra.errors import ConfigError
from palestra.server import EnvironmentDefinition

ROWS = [{"question": "2 + 2 = ?", "expected": "4"}]
HERE = Path(__file__).name


def with_methods(**members: Any) -> type[Environment]:
    made = {"data": ROWS, "prompt": "{question}", "verify": lambda self, answer: 1.0, **members}
    return type("Sums", (Environment,), made)


def refused(subject: Any) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        EnvironmentDefinition.of(subject)
    return raised.value


def line_of(function: Any) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno}: "


def test_an_init_with_required_parameters_is_refused_with_its_line() -> None:
    def init(self: Any, level: int, *, depth: int) -> None:
        self.level = level

    error = refused(with_methods(__init__=init))

    assert f"{line_of(init)}Sums.__init__ needs level, depth" in error.message
    assert "level: int = 3" in error.hint


def test_an_init_that_a_decorator_made_is_refused_with_the_line_of_its_class() -> None:
    @dataclass
    class Sums(Environment):
        level: int
        prompt = "{question}"

        def verify(self, answer: str) -> float:
            return float(bool(answer))

    error = refused(Sums)

    assert HERE in error.message
    assert "Sums.__init__ needs level" in error.message


@pytest.mark.parametrize(
    "init",
    [
        lambda self: None,
        lambda self, level=3: None,
        lambda self, *args, **kwargs: None,
        lambda *args: None,
    ],
)
def test_an_init_that_needs_no_argument_is_used(init: Any) -> None:
    assert EnvironmentDefinition.of(with_methods(__init__=init)).has("verify")


def by_position(self: Any, answer: str, expected: str = "4", /) -> float:
    return float(answer == expected)


@pytest.mark.parametrize("name", ["verify", "start", "reply", "gold", "messages"])
def test_positional_only_parameters_are_refused_with_their_line(name: str) -> None:
    error = refused(with_methods(**{name: by_position}))

    assert f"{line_of(by_position)}{name} has positional-only parameters" in error.message
    assert error.hint == f"leave out the /: def {name}(self, answer, expected)"


def test_positional_only_parameters_of_a_function_and_of_a_tool_are_refused() -> None:
    @environment(data=ROWS, prompt="{question}")
    def verify(answer: str, level: int = 9, /) -> bool:
        return bool(answer)

    @tool
    def look(self: Any, number: int, /) -> int:
        """Look."""
        return number

    assert "def verify(answer, level)" in refused(verify).hint
    assert "look has positional-only parameters" in refused(with_methods(look=look)).message


def test_a_self_that_is_positional_only_is_none_of_the_parameters() -> None:
    def verify(self: Any, /, answer: str) -> float:
        return float(bool(answer))

    assert EnvironmentDefinition.of(with_methods(verify=verify)).has("verify")


def generator(self: Any) -> Any:
    """Look."""
    yield 1.0


async def async_generator(self: Any) -> Any:
    """Look."""
    yield 1.0


@pytest.mark.parametrize("function", [generator, async_generator])
@pytest.mark.parametrize("name", ["verify", "start", "reply"])
def test_a_method_with_a_yield_is_refused_with_its_line(name: str, function: Any) -> None:
    error = refused(with_methods(**{name: function}))

    assert f"{line_of(function)}{name} has a yield" in error.message


def test_a_tool_with_a_yield_is_refused() -> None:
    @tool
    def look(self: Any) -> Any:
        """Look."""
        yield 1

    assert f"{line_of(look)}look has a yield" in refused(with_methods(look=look)).message


def test_messages_and_the_calls_of_gold_may_be_yielded() -> None:
    def messages(self: Any, question: str) -> Any:
        yield {"role": "user", "content": question}

    def gold(self: Any, expected: str) -> Any:
        yield expected

    definition = EnvironmentDefinition.of(with_methods(messages=messages, gold=gold))
    [row] = definition.rows()

    assert row["responses_create_params"]["input"][0]["content"] == "2 + 2 = ?"
    answer = definition.gold(row)
    assert answer is not None
    assert answer.final_text == "4"

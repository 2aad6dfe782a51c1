"""Slips in an author's methods that would be wrong rewards without an error."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

SOURCE = """from palestra import Environment

QUESTION = "Is {{answer}} polite?"
LABELS = ["yes", "no"]


class Manners(Environment):
    {line}
        {body}
"""
ASYNC = "async def verify(self, answer, response, more):"


def defined(folder: Path, body: str, line: str = ASYNC) -> EnvironmentDefinition:
    file = folder / "manners.py"
    file.write_text(SOURCE.format(line=line, body=body))
    return EnvironmentDefinition.of(load_module(file).Manners)


@pytest.mark.parametrize(
    "body",
    [
        "return await self.judge.choose('Is {answer} polite?', LABELS) == 'yes'",
        "return await self.judge.choose(QUESTION, LABELS) == 'yes'",
        "return await self.judge.choose('Is {answer} like {more}?', LABELS) == 'yes'",
    ],
)
def test_a_question_with_an_unfilled_placeholder_is_refused_with_its_line(
    tmp_path: Path, body: str
) -> None:
    with pytest.raises(ConfigError, match=r"manners\.py:8: verify asks .* \{answer\}") as raised:
        defined(tmp_path, body)

    assert "choose(question, labels, answer=…)" in raised.value.hint


@pytest.mark.parametrize(
    "body",
    [
        "return await self.judge.choose('Is {answer} polite?', LABELS, answer=answer) == 'yes'",
        "return await self.judge.choose(QUESTION, LABELS, **more) == 'yes'",
        "return await self.judge.choose(f'Is {answer} polite?', LABELS) == 'yes'",
        r"return await self.judge.choose('Is \\frac{a}{b} simple?', LABELS) == 'yes'",
        r"return await self.judge.choose('Is it \\boxed{answer}?', LABELS) == 'yes'",
        "return await self.judge.choose('Is {x} as <{answer}>?', LABELS, x=answer) == 'yes'",
        "QUESTION = answer; return await self.judge.choose(QUESTION, LABELS) == 'yes'",
    ],
)
def test_a_question_that_is_complete_is_asked(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, body).cls.__name__ == "Manners"


@pytest.mark.parametrize(
    "body",
    [
        "return more == response",
        "return response != more",
        "return more in response",
        "return 1.0 if more not in response else 0.0",
    ],
)
def test_a_response_that_is_compared_with_a_text_is_refused_with_its_line(
    tmp_path: Path, body: str
) -> None:
    with pytest.raises(ConfigError, match=r"manners\.py:8: verify compares response") as raised:
        defined(tmp_path, body)

    assert "response.final_text" in raised.value.hint


@pytest.mark.parametrize(
    "line",
    ["@tool\n    def verify_(self, response: str):", "def start(self, response):"],
)
def test_a_response_that_is_not_the_model_s_may_be_compared(tmp_path: Path, line: str) -> None:
    file = tmp_path / "manners.py"
    file.write_text(
        "from palestra import Environment, tool\n\n\nclass Manners(Environment):\n"
        f"    {line}\n        return response == 'x'\n\n"
        "    def verify(self, answer):\n        return 1.0\n"
    )

    assert EnvironmentDefinition.of(load_module(file).Manners).cls.__name__ == "Manners"


@pytest.mark.parametrize(
    "body",
    [
        "return more == response.final_text",
        "return response is not None",
        "response = answer.strip(); return response == more",
        "return response == None or any(map(lambda response: response == more, answer))",
    ],
)
def test_what_a_response_has_may_be_compared(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, body).cls.__name__ == "Manners"

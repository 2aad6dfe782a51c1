"""Calls of the judge and the sandbox that can only fail."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

SOURCE = """from palestra import Environment


class Sums(Environment):
    {first_line}
    async def verify(self, answer, more):
        {body}
"""


def defined(folder: Path, body: str, first_line: str = "") -> EnvironmentDefinition:
    file = folder / "sums.py"
    file.write_text(SOURCE.format(body=body, first_line=first_line))
    return EnvironmentDefinition.of(load_module(file).Sums)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return await self.judge.ask(answer)", r"uses self\.judge\.ask, which does not exist"),
        (
            "return 'yes' in await self.judge(answer)",
            r"calls self\.judge\(…\), which is no function",
        ),
        ("return await self.sandbox(answer)", r"calls self\.sandbox\(…\), which is no function"),
        ("return await self.judge.chose(answer, more)", "did you mean 'choose'"),
        ("return await self.sandbox.runs(answer)", "did you mean 'run'"),
        (
            "return await self.sandbox.run(answer, timeout=10)",
            r"run with timeout=…, which it does not",
        ),
        ("return await self.sandbox.run(answer, limit=more)", "did you mean 'limits'"),
        ("return await self.sandbox.run(answer, more)", "too many positional arguments"),
        ("return await self.sandbox.run()", "missing a required argument: 'program'"),
        ("return await self.judge.same(answer)", "missing a required argument: 'b'"),
        ("return await self.judge.same('4', answer, questions=more)", "did you mean 'question'"),
        ("return await self.judge.choose('Is it?', 'yes', 'no')", "too many positional arguments"),
        ("return await self.judge.choose('Is it?', 'yes')", "labels that are one text"),
        ("async with self.sandbox.converse(answer, limit=more): pass", "did you mean 'limits'"),
    ],
)
def test_a_call_that_can_only_fail_is_refused_with_its_line(
    tmp_path: Path, body: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=rf"sums\.py:6: verify .*{problem}"):
        defined(tmp_path, body)


def test_the_hint_of_a_wrong_call_is_one_that_works(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        defined(tmp_path, "return await self.judge.choose('Is it?', 'yes', 'no')")

    assert '["yes", "no"]' in raised.value.hint


@pytest.mark.parametrize(
    "body",
    [
        "return await self.judge.same('4', answer, question='2 + 2 = ?')",
        "return await self.judge.choose('Is {text} it?', ['yes', 'no'], text=answer)",
        "return await self.judge.choose(*more)",
        "return await self.sandbox.run(answer, stdin='4', limits=None)",
        "return await self.sandbox.run(answer, **more)",
        "async with self.sandbox.converse(answer, rests=True): pass",
        "return more.judge(answer)",
    ],
)
def test_a_call_that_fits_is_accepted(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, body).has("verify")


def test_an_attribute_of_the_author_with_the_name_of_a_service_has_its_own_methods(
    tmp_path: Path,
) -> None:
    assert defined(tmp_path, "return await self.judge.ask(answer)", "judge = object()").has(
        "verify"
    )

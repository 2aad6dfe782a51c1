"""Calls of the judge and the sandbox that an author forgot to await."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palestra.errors import ConfigError, VerifierError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition
from palestra.server.environments.rewards import verdict_of

SOURCE = """from palestra import Environment


class Sums(Environment):
    {line}
        {body}
"""


def defined(folder: Path, line: str, body: str) -> EnvironmentDefinition:
    file = folder / "sums.py"
    file.write_text(SOURCE.format(line=line, body=body))
    return EnvironmentDefinition.of(load_module(file).Sums)


PLAIN, ASYNC = "def verify(self, answer):", "async def verify(self, answer):"


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (ASYNC, "return self.judge.same('4', answer)"),
        (ASYNC, "return answer != '' and self.judge.same('4', answer)"),
        (ASYNC, "return self.judge.same('4', answer) if answer else 0.0"),
        (ASYNC, "return 1.0 if self.judge.same('4', answer) and answer else 0.0"),
        (ASYNC, "return 1.0 if answer and self.judge.same('4', answer) else 0.0"),
        (ASYNC, "return 1.0 if self.judge.same('4', answer) else 0.0"),
        (PLAIN, "return self.judge.same('4', answer)"),
        (PLAIN, "return float(self.judge.same('4', answer))"),
        (PLAIN, "return self.judge.choose('Is it?', ['yes', 'no']) == 'yes'"),
        (PLAIN, "return self.sandbox.run(answer).ok"),
        (PLAIN, "done = self.sandbox.run(answer); return done.ok"),
        (ASYNC, "done = self.sandbox.run(answer); return {'ok': done.ok}"),
        (ASYNC, "done = self.sandbox.run(answer)\n        if done.ok: return 1.0"),
        (ASYNC, "return 1.0 if (done := self.sandbox.run(answer)) and done.ok else 0.0"),
        (ASYNC, "same = self.judge.same('4', answer); return 1.0 if same else 0.0"),
        (ASYNC, "same = self.judge.same('4', answer); return same"),
        (ASYNC, "label = self.judge.choose('Is it?', ['yes', 'no']); return label == 'yes'"),
        (ASYNC, "label = self.judge.choose('Is it?', ['yes', 'no']); return label[0]"),
    ],
)
def test_a_call_that_is_used_without_await_is_refused_with_its_line_and_the_cure(
    tmp_path: Path, line: str, body: str
) -> None:
    with pytest.raises(ConfigError, match=r"sums\.py:5: verify uses self\.\w+\.\w+\(") as raised:
        defined(tmp_path, line, body)

    assert "async def" in raised.value.hint


def test_a_lambda_that_uses_a_call_without_await_is_refused(tmp_path: Path) -> None:
    line = "verify = lambda self, answer: float("

    with pytest.raises(ConfigError, match=r"sums\.py:5: verify uses self\.judge\.same\("):
        defined(tmp_path, line, "self.judge.same('4', answer))")


@pytest.mark.parametrize(
    "body",
    [
        "return await self.judge.same('4', answer)",
        "return bool(await self.judge.same('4', answer))",
        "call = self.judge.same('4', answer); return await call",
        "call = answer != '' and self.judge.same('4', answer); return await call if call else 0.0",
        "ask = lambda: self.judge.same('4', answer); return await ask()",
        "same = self.judge.same('4', answer); same = await same; return 1.0 if same else 0.0",
        "done = await self.sandbox.run(answer); return done.ok",
        "done = self.sandbox.run(answer); done.close(); return 1.0",
        "calls = [self.judge.same('4', answer)]; return (await calls[0])",
    ],
)
def test_a_call_that_is_awaited_is_accepted(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, ASYNC, body).has("verify")


def test_a_helper_method_that_uses_a_call_without_await_is_refused(tmp_path: Path) -> None:
    body = "return await self.ran(answer)\n\n    async def ran(self, code):\n        return self.sandbox.run(code)"

    with pytest.raises(ConfigError, match=r"sums\.py:8: ran uses self\.sandbox\.run\("):
        defined(tmp_path, ASYNC, body)


@pytest.mark.parametrize(
    "body",
    ["return self.judge.same('4', answer)", "return answer != '' and self.judge.same('4', answer)"],
)
def test_a_plain_method_without_a_worker_may_return_the_call(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, f"isolated = False\n    {PLAIN}", body).has("verify")


async def same() -> bool:
    return True


@pytest.mark.parametrize("wrap", [lambda call: call, lambda call: {"correct": call}])
def test_a_call_that_was_not_awaited_is_no_reward_and_no_warning_of_python(wrap: Any) -> None:
    with pytest.raises(VerifierError, match="a call of same that was not awaited") as raised:
        verdict_of(wrap(same()), {}, "sums/verify")

    assert "async def" in raised.value.hint


def test_labels_that_are_one_text_are_refused() -> None:
    from palestra.server.environments.services import EnvironmentJudge
    from palestra.server.judging.judge import JudgeConfig

    judge = EnvironmentJudge(JudgeConfig.model_construct(), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'such as \["yes", "no"\], not \'yes\''):
        asyncio.run(judge.choose("Is it?", "yes"))

"""Calls of an author's own async functions that are not awaited."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

SOURCE = """import asyncio
import functools
from palestra import Environment, tool

async def near(answer):
    return 0.5

def ahead(answer):
    return near(answer)

def counted(function):
    @functools.wraps(function)
    async def run(*args, **kwargs):
        return await (await function(*args, **kwargs))
    return run

class Sums(Environment):
    async def ok(self, answer=""):
        return False

    async def late(self, answer):
        return self.ok(answer)

    def soon(self, answer):
        return self.ok(answer)

    @staticmethod
    async def fixed(answer):
        return 0.0

{code}
"""
VERIFY = "    {kind} verify(self, answer, *rest):\n        {body}\n"


def defined(folder: Path, code: str) -> EnvironmentDefinition:
    file = folder / "sums.py"
    file.write_text(SOURCE.format(code=code))
    return EnvironmentDefinition.of(load_module(file).Sums)


@pytest.mark.parametrize(
    "body",
    [
        "return 1.0 if self.ok() else 0.0",
        "return {'right': 1.0 if self.ok() else 0.0}",
        "return {'right': self.ok()}",
        "return {'parts': [self.ok()]}",
        "return float(not self.ok())",
        "return float(self.ok() is True)",
        "return self.ok() == 1",
        "return bool(self.ok())",
        "return float(len(f'{self.ok()}'))",
        "return float(any(self.ok(part) for part in answer))",
        "return float(all([self.ok(), self.ok()]))",
        "return max(self.ok(), 0.0)",
        "score = 0.0; score += self.ok(); return score",
        "right = self.ok(); return 1.0 if right else 0.0",
        "right, wrong = self.ok(); return right",
        "return sum(part for part in self.ok())",
        "return 1.0 if self.soon(answer) else 0.0",
        "return 1.0 if self.fixed(answer) else 0.0",
        "return 1.0 if near(answer) else 0.0",
        "return 1.0 if ahead(answer) else 0.0",
        "return 1.0 if asyncio.wait_for(None, 3) else 0.0",
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_call_whose_value_is_used_is_refused_with_its_line_and_the_cure(
    tmp_path: Path, kind: str, body: str
) -> None:
    with pytest.raises(ConfigError, match=r"sums\.py:31: verify uses [\w.]+\(…\)") as raised:
        defined(tmp_path, VERIFY.format(kind=kind, body=body))

    assert "without await: what it uses is not the result" in raised.value.message
    assert "async def" in raised.value.hint


@pytest.mark.parametrize(
    "body", ["self.ok(); return 1.0", "asyncio.sleep(0); return 1.0", "ok = self.ok(); return 1.0"]
)
def test_a_call_that_nothing_can_await_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(ConfigError, match=r"verify calls [\w.]+\(…\) without await: none of its"):
        defined(tmp_path, VERIFY.format(kind="async def", body=body))


def test_a_plain_verify_is_told_to_be_async(tmp_path: Path) -> None:
    body = "return 1.0 if self.ok() else 0.0"

    with pytest.raises(ConfigError) as raised:
        defined(tmp_path, VERIFY.format(kind="def", body=body))

    assert raised.value.hint == "write async def verify, and await the call: await self.ok(…)"


def test_a_result_that_is_a_call_is_refused_with_the_function_that_returns_it(
    tmp_path: Path,
) -> None:
    body = "return 1.0 if await self.late(answer) else 0.0"

    with pytest.raises(ConfigError, match=r"uses the result of await self\.late") as raised:
        defined(tmp_path, VERIFY.format(kind="async def", body=body))

    assert raised.value.hint == "await the call in self.late, where it is returned"


SCORED = VERIFY.format(kind="def", body="return 1.0")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (
            "take",
            '    @tool\n    async def take(self) -> str:\n        """."""\n        return self.ok()',
        ),
        (
            "take",
            '    @tool\n    def take(self) -> str:\n        """."""\n        return f"{self.ok()}"',
        ),
        ("reply", "    async def reply(self, answer):\n        return self.ok()"),
        ("start", "    async def start(self, task):\n        return self.ok()"),
        ("start", "    def start(self, task):\n        self.ok()"),
        ("helper", "    def helper(self):\n        return not self.ok()"),
        ("gold", "    def gold(self, task):\n        return self.ok()"),
        ("messages", "    def messages(self, task):\n        return [self.ok()]"),
    ],
)
def test_each_method_is_checked(tmp_path: Path, name: str, code: str) -> None:
    with pytest.raises(ConfigError, match=rf"sums\.py:\d+: {name} (uses|calls) self\.ok\("):
        defined(tmp_path, f"{SCORED}\n{code}\n")


def test_a_method_that_cannot_be_async_is_told_to_call_no_async_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        defined(tmp_path, f"{SCORED}\n    def gold(self, task):\n        return self.ok()\n")

    assert raised.value.hint == "gold cannot be async: write self.ok without async"


def test_a_function_of_the_module_that_a_method_calls_is_checked(tmp_path: Path) -> None:
    code = VERIFY.format(kind="def", body="return score(answer)")
    code += "\n\ndef score(answer):\n    return 1.0 if near(answer) else 0.0\n"

    with pytest.raises(ConfigError, match=r"sums\.py:35: score uses near\("):
        defined(tmp_path, code)


@pytest.mark.parametrize(
    "body",
    [
        "return float(await self.ok())",
        "return await self.soon(answer)",
        "return await (await self.late(answer))",
        "return await ahead(answer)",
        "return float(any(await asyncio.gather(self.ok(), self.ok('a'))))",
        "return float(any([await self.ok(part) for part in answer]))",
        "return sum(await asyncio.gather(*(self.ok(part) for part in answer)))",
        "call = self.ok(); return float(await call)",
        "call = self.ok(); right = await call; return 1.0 if call and right else 0.0",
        "calls = [self.ok(), self.ok('a')]; return sum([await call for call in calls])",
        "task = asyncio.create_task(self.ok()); return float(await task)",
        "return await asyncio.wait_for(self.ok(), 3)",
        "ask = self.ok if answer else self.fixed; return float(await ask(answer))",
        "self.pending = self.ok(); return float(await self.pending)",
        "near = len; return float(near(answer))",
        "near = lambda text: 1.0; return 1.0 if near(answer) else 0.0",
        "any = list; return len(any(await c for c in [self.ok()]))",
        "call = self.ok(); call.close(); return 1.0",
        "ok = [part.ok() for part in rest]; return float(bool(ok))",
        "self.ok = lambda: 1.0; return 1.0 if self.ok() else 0.0",
        "setattr(self, 'ok', len); return 1.0 if self.ok() else 0.0",
        "from builtins import len as near; return 1.0 if near(answer) else 0.0",
        "return float(inspected(self.ok()))",
        (
            "async with asyncio.TaskGroup() as group:\n"
            "            task = group.create_task(self.ok())\n"
            "        return float(task.result())"
        ),
        (
            "class Plain:\n"
            "            def ok(self): return 1\n"
            "            def right(self): return 1.0 if self.ok() else 0.0\n"
            "        return Plain().right()"
        ),
    ],
)
def test_right_code_is_accepted(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, VERIFY.format(kind="async def", body=body)).has("verify")


@pytest.mark.parametrize("body", ["return self.ok()", "return self.soon(answer)"])
def test_a_plain_method_may_return_a_call_which_is_awaited_there(tmp_path: Path, body: str) -> None:
    assert defined(tmp_path, VERIFY.format(kind="def", body=body)).has("verify")


def test_a_decorator_may_await_what_a_method_returns(tmp_path: Path) -> None:
    code = "    @counted\n" + VERIFY.format(kind="async def", body="return self.ok()")

    assert defined(tmp_path, code).has("verify")


def test_a_plain_method_of_a_subclass_replaces_the_async_one(tmp_path: Path) -> None:
    code = VERIFY.format(kind="def", body="return 1.0 if self.right() else 0.0")
    code += "\n    async def right(self):\n        return 1\n"
    file = tmp_path / "sums.py"
    file.write_text(
        SOURCE.format(code=code) + "\nclass Plain(Sums):\n    def right(self):\n        return 1\n"
    )

    assert EnvironmentDefinition.of(load_module(file).Plain).has("verify")


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        (
            "return float(len(await all(self.ok(part) for part in answer)))",
            "async def all(calls):\n    return [await call for call in calls]",
        ),
        (
            "return near_of(Plain())",
            (
                "class Plain:\n    def ok(self):\n        return 1\n\n"
                "def near_of(self):\n    return 1.0 if self.ok() else 0.0"
            ),
        ),
        (
            "return float(len([*self.parts()]))",
            "",
        ),
    ],
    ids=["own function of Python's name", "function with a parameter self", "generator"],
)
def test_what_may_be_no_coroutine_is_accepted(tmp_path: Path, body: str, functions: str) -> None:
    code = VERIFY.format(kind="async def", body=body)
    code += f"\n    def parts(self):\n        yield 1\n        return self.ok()\n\n{functions}\n"

    assert defined(tmp_path, code).has("verify")

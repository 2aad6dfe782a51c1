"""Verifiers with bugs that real ones have had, and one without."""

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from palestra.errors import JudgeFailure
from palestra.schema import (
    Response,
    ResponseCreateParams,
    VerifyRequest,
    VerifyResponse,
    response_of,
)
from palestra.server import ResourcesServer, ToolError, tool

BOX = re.compile(r"\\boxed\{([^{}]*)\}")
JUDGE = "judge"


def row(question: str, answer: str) -> dict[str, Any]:
    asked = f"{question} End with the answer in a box, like \\boxed{{17}}."
    params = {"input": [{"role": "user", "content": asked}]}
    return {"responses_create_params": params, "expected_answer": answer, "aliases": [answer]}


ROWS = [
    row("Six times seven?", "42"),
    row("Ten to the third?", "1000"),
    row("The capital of France?", "Paris"),
    row("The eighth prime?", "19"),
]

PROGRAM_ROWS = [
    {**row("Print four.", "4"), "solution": "print(2 + 2)"},
    {**row("Print nine.", "9"), "solution": "print(3 * 3)"},
]


class Row(VerifyRequest):
    """What the verifiers read."""

    expected_answer: str
    aliases: list[str] = Field(default_factory=list)


def boxed(text: str) -> str | None:
    found = BOX.findall(text)
    return found[-1].strip() if found else None


class Sound(ResourcesServer):
    """The last box holds the expected answer."""

    rows: ClassVar[list[dict[str, Any]]] = ROWS
    memory: dict[str, Any] = Field(default_factory=dict)

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        return response_of(
            f"I thought about it. The answer is \\boxed{{{row['expected_answer']}}}."
        )

    async def verify(self, body: Row) -> VerifyResponse:
        return self.reply(body, await self.score(body, body.response.final_text))

    async def score(self, body: Row, text: str) -> float:
        return float(boxed(text) == body.expected_answer)


class BrokenTool(Sound):
    """No right answer calls its tool, which has a bug."""

    @tool
    def look_up(self, name: str, page: int = 1) -> str:
        """Look it up."""
        return {"Rome": "Italy"}[name] * page


class RefusingTool(Sound):
    """Its tool refuses what is not there."""

    @tool
    def look_up(self, name: str) -> str:
        """Look it up."""
        raise ToolError(f"there is no {name}")


class Substring(Sound):
    async def score(self, body: Row, text: str) -> float:
        return float(body.expected_answer in text)


class AlwaysOne(Sound):
    async def score(self, body: Row, text: str) -> float:
        return 1.0


class RewardsEmpty(Sound):
    async def score(self, body: Row, text: str) -> float:
        return await super().score(body, text) if text.strip() else 1.0


class NotANumberOnEmpty(Sound):
    async def score(self, body: Row, text: str) -> float:
        return await super().score(body, text) if text else float("nan")


class RollsDice(Sound):
    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        # The same dice in each run of the tests: by chance, all answers of a few rows may agree.
        self._dice = random.Random(0)

    async def score(self, body: Row, text: str) -> float:
        return await super().score(body, text) if self._dice.random() < 0.8 else 0.0


class RaisesOnHuge(Sound):
    async def score(self, body: Row, text: str) -> float:
        if len(text) > 20_000:
            raise ValueError("too long")
        return await super().score(body, text)


class BlocksTheLoop(Sound):
    async def score(self, body: Row, text: str) -> float:
        time.sleep(0.15)  # noqa: ASYNC251
        return await super().score(body, text)


class QuadraticPattern(Sound):
    async def score(self, body: Row, text: str) -> float:
        return await super().score(body, re.sub(r"\s+$", "", text))


class ConfusesCase(Sound):
    async def score(self, body: Row, text: str) -> float:
        return float((boxed(text) or "").lower() == body.expected_answer)


class LastWordAnywhere(Sound):
    async def score(self, body: Row, text: str) -> float:
        words = re.findall(r"\w+", text)
        return float(bool(words) and words[-1] == body.expected_answer)


class AcceptsTruncated(Sound):
    async def score(self, body: Row, text: str) -> float:
        answer = text.rpartition("\\boxed{")[2].rstrip("}. ")
        return float(bool(answer) and body.expected_answer.startswith(answer))


class IgnoresTheRow(Sound):
    async def score(self, body: Row, text: str) -> float:
        return float(boxed(text) in {row["expected_answer"] for row in ROWS})


class ReadsThePrompt(Sound):
    async def score(self, body: Row, text: str) -> float:
        return await super().score(body, body.responses_create_params.input[-1].text + text)


class RemembersTheLastAnswer(Sound):
    async def score(self, body: Row, text: str) -> float:
        self.memory["extracted_answer"] = boxed(text) or self.memory.get("extracted_answer")
        return float(self.memory["extracted_answer"] == body.expected_answer)


class RewardsOnlyOnce(Sound):
    async def score(self, body: Row, text: str) -> float:
        first = self.memory.setdefault(text, body.expected_answer) is body.expected_answer
        self.memory[text] = None
        return await super().score(body, text) if first else 0.0


class CountsItsCalls(Sound):
    async def score(self, body: Row, text: str) -> float:
        self.memory["calls"] = self.memory.get("calls", 0) + 1
        return await super().score(body, text) if self.memory["calls"] % 7 else 0.0


class RewardsTooMuch(Sound):
    async def score(self, body: Row, text: str) -> float:
        return 2.0 * await super().score(body, text)


class ChangesTheRow(Sound):
    async def score(self, body: Row, text: str) -> float:
        body.responses_create_params.tools.append(None)  # type: ignore[arg-type]
        (body.model_extra or {}).get("notes", []).append("verified")
        return await super().score(body, text)

    rows: ClassVar[list[dict[str, Any]]] = [{**row, "notes": []} for row in ROWS]


class ReadsNumbersOnly(Sound):
    rows: ClassVar[list[dict[str, Any]]] = [ROWS[0], ROWS[1]]

    async def score(self, body: Row, text: str) -> float:
        answer = boxed(text) or ""
        return float(answer.isdigit() and int(answer) == int(body.expected_answer))


class ParsesJson(Sound):
    async def score(self, body: Row, text: str) -> float:
        with contextlib.suppress(json.JSONDecodeError):
            json.loads(text)
        return await super().score(body, text)


class NeverAnswers(Sound):
    async def score(self, body: Row, text: str) -> float:
        if boxed(text) is None:
            await asyncio.Event().wait()
        return await super().score(body, text)


class TripsOverSurrogates(Sound):
    async def score(self, body: Row, text: str) -> float:
        self.memory["bytes"] = len(text.encode())
        return await super().score(body, text)


class AsksAJudge(Sound):
    """Sound in how it asks: the candidate is quoted with a digest that it cannot hold."""

    async def score(self, body: Row, text: str) -> float:
        if not text.strip():
            return 0.0
        return self.read(await self.asked(body, text))

    async def asked(self, body: Row, text: str) -> str:
        question = self.question(body, text.encode("utf-8", "replace").decode())
        params = ResponseCreateParams.model_validate({"input": question})
        answer = await self.server_client.peer(JUDGE).call("/v1/responses", params, Response)
        return answer.final_text

    def question(self, body: Row, text: str) -> str:
        fence = f"{hash(text):x}"
        return (
            f"Expected: {body.expected_answer}\n<{fence}>\n{text}\n</{fence}>\n[[Yes]] or [[No]]?"
        )

    def read(self, reply: str) -> float:
        last = reply.strip().rpartition("\n")[2]
        if ("[[Yes]]" in last) == ("[[No]]" in last):
            raise JudgeFailure("no verdict")
        return float("[[Yes]]" in last)


class JudgeIsNotFenced(AsksAJudge):
    def question(self, body: Row, text: str) -> str:
        return (
            f"Expected: {body.expected_answer}\nCandidate: {text}\nIs it right? [[Yes]] or [[No]]"
        )


class JudgeUnreadableIsRight(AsksAJudge):
    def read(self, reply: str) -> float:
        return float("[[No]]" not in reply)


class JudgeQuotationIsTheVerdict(AsksAJudge):
    def read(self, reply: str) -> float:
        return float("[[Yes]]" in reply)


class ProgramThatExitsIsRight(Sound):
    rows: ClassVar[list[dict[str, Any]]] = PROGRAM_ROWS

    def gold_response(self, row: Mapping[str, Any]) -> Response | None:
        return response_of(f"```python\n{row['solution']}\n```")

    async def score(self, body: Row, text: str) -> float:
        found = re.search(r"```python\n(.{,5000}?)```", text, re.DOTALL)
        if found is None or "\0" in found[1]:
            return 0.0
        checked = f"{found[1]}\nassert {body.expected_answer} == {body.expected_answer}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", checked.encode("utf-8", "replace").decode(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(2):
                return float(await process.wait() == 0)
        except TimeoutError:
            return 0.0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


BUGGY: tuple[type[Sound], ...] = (
    Substring, AlwaysOne, RewardsEmpty, NotANumberOnEmpty, RollsDice, RaisesOnHuge, BlocksTheLoop,
    QuadraticPattern, ConfusesCase, LastWordAnywhere, AcceptsTruncated, IgnoresTheRow,
    ReadsThePrompt, RemembersTheLastAnswer, RewardsOnlyOnce, CountsItsCalls, RewardsTooMuch,
    ChangesTheRow, ReadsNumbersOnly, ParsesJson, NeverAnswers, TripsOverSurrogates,
    JudgeIsNotFenced, JudgeUnreadableIsRight, JudgeQuotationIsTheVerdict, ProgramThatExitsIsRight,
    BrokenTool,
)  # fmt: skip
SOUND: tuple[type[Sound], ...] = (Sound, AsksAJudge, RefusingTool)

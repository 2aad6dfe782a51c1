"""`EquivalenceRuleServer`: a rule scores how similar an answer is to the expected text."""

from functools import cached_property
from typing import ClassVar, Final, Literal

from pydantic import Field

from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.resources_servers.stopped import Call, Stopped, value_of
from palestra.sandbox import Workers, open_workers
from palestra.schema import JsonObject, Response, VerifyRequest, VerifyResponse, response_of
from palestra.server import ResourcesServerConfig, RewardRules

Rule = Literal["exact", "sequence_match", "weighted"]

LIMIT_S: Final = 5.0
"""The seconds for one comparison; waiting for a core does not count."""
_RATIO: Final = "palestra.resources_servers.equivalence_rule.ratio"


class EquivalenceRuleConfig(ResourcesServerConfig):
    """The settings of the environment. `rule`: the rule for rows that set none."""

    rule: Rule = "exact"

    exact_weight: float = Field(default=0.5, ge=0, le=1)
    """With rule `weighted`: the part of the score that only an exact answer gets."""


class EquivalenceRuleVerifyRequest(VerifyRequest):
    """A row: the expected text, and the rule that compares an answer with it."""

    expected_answer: str = Field(pattern=r"\S")

    rule: Rule | None = None
    """The rule for this row. By default, the rule of the settings."""


class EquivalenceRuleServer(AttemptsServer):
    """A resources server that compares the last message with the expected answer."""

    config: EquivalenceRuleConfig

    reward_rules: ClassVar[RewardRules] = RewardRules(wrong=0.99)

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response with only the expected answer."""
        return response_of(row["expected_answer"])

    async def verify(self, body: EquivalenceRuleVerifyRequest) -> VerifyResponse:
        """Return a reward from 0.0 (no text in common) to 1.0 (the same text)."""
        answer, expected = body.response.final_text.strip(), body.expected_answer.strip()
        score = await self._score(answer, expected, body.rule or self.config.rule)
        return self.reply(body, score, equivalence_score=score)

    async def _score(self, answer: str, expected: str, rule: Rule) -> float:
        if answer == expected:
            return 1.0
        if rule == "exact" or not answer:
            return 0.0
        part = 1.0 if rule == "sequence_match" else 1.0 - self.config.exact_weight
        return part * await self._similarity(answer, expected)

    async def _similarity(self, answer: str, expected: str) -> float:
        compared, expected_alone = (
            Call(f"{_RATIO}:ratio", (text, expected)) for text in (answer, expected)
        )
        try:
            ratio = await value_of(
                self._workers,
                compared,
                row_call=expected_alone,
                field="expected_answer",
                limit_s=LIMIT_S,
            )
        except Stopped:
            return 0.0
        return float(ratio)

    async def stop(self) -> None:
        """Stop the worker processes."""
        await self._workers.close()

    @cached_property
    def _workers(self) -> Workers:
        return open_workers(preload=[_RATIO])

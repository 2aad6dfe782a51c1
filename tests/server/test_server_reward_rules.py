"""A reward outside the rules of its environment is scored, and the row says so."""

from typing import Any, ClassVar

import orjson
import pytest

from author_servers import ask, server_of, turn
from palestra.errors import ConfigError
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, RewardRules


class WithoutRules(ResourcesServer):
    """Every answer gets 2.5."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 2.5)


class WithRules(WithoutRules):
    reward_rules: ClassVar[RewardRules] = RewardRules(highest=2.5)


class WithRounding(ResourcesServer):
    """A sum of weights that is a little more than 1."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0 + 2e-16)


def row_of(kind: type[ResourcesServer]) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(ask(server_of(kind), "/verify", turn()).body)
    return row


def test_a_reward_outside_the_default_limits_is_marked() -> None:
    row = row_of(WithoutRules)

    assert (row["reward"], row["outside_reward_rules"]) == (2.5, [0.0, 1.0])


@pytest.mark.parametrize("kind", [WithRules, WithRounding])
def test_a_reward_that_the_rules_allow_is_not_marked(kind: type[ResourcesServer]) -> None:
    assert "outside_reward_rules" not in row_of(kind)


@pytest.mark.parametrize("limit", ["2", None, True, float("nan")])
def test_a_limit_that_is_no_number_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match="reward_rules: highest must be a number, not"):
        RewardRules(highest=limit)


def test_reasons_without_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="unsure must be reasons by kind"):
        RewardRules(unsure=["empty"])  # type: ignore[arg-type]

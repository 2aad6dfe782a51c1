"""Environments of one file are examined like any other, and advised in their own terms."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest
from planted import Sound
from test_planted_bugs import PATIENT_LIMITS, examine

from palestra.config import config_from_tree
from palestra.conformance import ExaminedEnvironment, VerifierReport, check_environment
from palestra.conformance.report import Status
from palestra.fleet import server_client
from palestra.server import (
    WRONG_KINDS,
    EnvironmentConfig,
    EnvironmentDefinition,
    RewardRules,
    environment,
    server_class_of,
)

ANY_WORDS = "any words in the right number are right"
DATA = [{"n": 1, "right": "sun"}, {"n": 3, "right": "the red sun"}]
PROMPT = "Write {n} words and nothing else."


def counted(answer: str, n: int) -> float:
    return float(len(answer.split()) == n)


def examined(function: Callable[..., float]) -> VerifierReport:
    env = EnvironmentDefinition.of(function)
    config = EnvironmentConfig(name="words")
    server = server_class_of(env)(config=config, server_client=server_client({}, {}))
    subject = ExaminedEnvironment(
        "words", config_from_tree({}), (), rows=list(env.rows()), ready={"words": server}
    )
    return asyncio.run(check_environment(subject, PATIENT_LIMITS))


def test_an_environment_with_many_right_answers_passes_with_its_rules() -> None:
    rules = RewardRules(unsure=dict.fromkeys(("garbage", "truncated", "wrong", "other"), ANY_WORDS))
    made = environment(data=DATA, prompt=PROMPT, gold="{right}", reward_rules=rules)(counted)

    report = examined(made)

    assert report.passed, [check for check in report.checks if check.findings]


def test_a_right_answer_of_weighted_components_gets_the_sum_of_the_weights() -> None:
    def components(answer: str, n: int) -> dict[str, float]:
        right = float(len(answer.split()) == n)
        return {"right": right, "short": right}

    rules = RewardRules(
        wrong=2.0, unsure=dict.fromkeys(("garbage", "truncated", "wrong", "other"), ANY_WORDS)
    )
    weights = {"right": 2.0, "short": 1.0}
    made = environment(
        data=DATA, prompt=PROMPT, gold="{right}", weights=weights, reward_rules=rules
    )(components)

    report = examined(made)

    assert report.passed, [check for check in report.checks if check.findings]


def test_without_a_right_answer_the_advice_is_for_one_file() -> None:
    data = [{"n": row["n"]} for row in DATA]

    gold = examined(environment(data=data, prompt=PROMPT)(counted)).checks[0]

    (finding,) = gold.findings
    assert 'write gold(self, task), or gold = "{field}"' in finding.problem
    assert "verifier_cases" not in finding.problem


@pytest.mark.parametrize(("length_weight", "is_advised"), [(0.25, True), (1.0, False)])
def test_a_part_of_the_reward_for_wrong_answers_is_advised_to_be_declared(
    length_weight: float, is_advised: bool
) -> None:
    def components(answer: str, right: str) -> dict[str, float]:
        return {"right": (1 - length_weight) * (answer == right), "long": length_weight}

    wrong = examined(environment(data=DATA, prompt=PROMPT, gold="{right}")(components)).checks[1]

    assert wrong.status is Status.FAILED
    assert ("reward_rules = RewardRules(wrong=0.25)" in wrong.note) is is_advised


class Unsure(Sound):
    """Any made-up answer may be right."""

    reward_rules: ClassVar[RewardRules] = RewardRules(unsure=dict.fromkeys(WRONG_KINDS, "may be"))


def test_every_answer_that_is_made_up_is_of_a_kind_that_rules_can_name() -> None:
    wrong = next(check for check in examine(Unsure).checks if check.name == "wrong")

    assert (wrong.status, wrong.probes) == (Status.SKIPPED, 0)

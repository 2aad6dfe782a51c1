"""The report of an examination: findings that are the same, and the gold that an author returns."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from planted import ROWS

from palestra import Environment
from palestra.config import config_from_tree
from palestra.conformance import (
    ExaminationLimits,
    ExaminedEnvironment,
    VerifierFault,
    VerifierReport,
    check_environment,
    grouped,
)
from palestra.fleet import server_client
from palestra.server import EnvironmentConfig, EnvironmentDefinition, server_class_of


def test_findings_with_the_same_problem_and_answer_are_one_group() -> None:
    raised = "emp/verify raised IndexError"
    empty = [
        VerifierFault(row, kind, raised, answer)
        for row in (0, 1)
        for kind, answer in (("empty", ""), ("empty", "\n\t"), ("prompt", ""))
    ]
    wrong = [VerifierFault(0, "wrong", "got 1", "5"), VerifierFault(0, "wrong", "got 1", "6")]

    assert grouped([*empty, *wrong]) == [empty, [wrong[0]], [wrong[1]]]


def examined(cls: Any, steps: list[str], **limits: Any) -> VerifierReport:
    server = server_class_of(EnvironmentDefinition.of(cls, name="sums"))(
        config=EnvironmentConfig(name="sums"), server_client=server_client({}, {})
    )
    subject = ExaminedEnvironment(
        name="sums",
        config=config_from_tree({}),
        servers=(),
        judges=(),
        rows=ROWS[:1],
        ready={"sums": server},
    )
    return asyncio.run(check_environment(subject, ExaminationLimits(**limits), steps=steps))


def scoring(right: float, wrong: float) -> Any:
    """A class whose verifier gives these rewards; the one for no answer is less by 3."""

    async def verify(self: Any, answer: str, expected_answer: str) -> float:
        return right if answer == expected_answer else wrong if answer else wrong - 3

    return type("Sums", (Environment,), {"gold": "{expected_answer}", "verify": verify})


@pytest.mark.parametrize(
    ("right", "wrong", "step", "note"),
    [
        (0.8, 0.0, "gold", "if that is the best reward: reward_rules = RewardRules(highest=0.8)"),
        (1.0, 0.5, "wrong", "if they may earn a part: reward_rules = RewardRules(wrong=0.5)"),
        (9, 5, "wrong", "if they may earn a part: reward_rules = RewardRules(highest=9, wrong=5)"),
        (1.0, 0.5, "injection", "if they may earn a part: reward_rules = RewardRules(wrong=0.5)"),
        (9, 2, "range", "if they are meant: reward_rules = RewardRules(lowest=-1, highest=9)"),
    ],
)
def test_a_check_says_which_reward_rules_allow_the_rewards_that_it_found_wrong(
    right: float, wrong: float, step: str, note: str
) -> None:
    steps = ["gold", "wrong", "injection", "range"]
    report = examined(scoring(right, wrong), steps[: steps.index(step) + 1])

    assert report.checks[-1].note.startswith(note)


def test_no_rules_are_named_for_a_wrong_answer_that_gets_the_full_reward() -> None:
    report = examined(scoring(1.0, 1.0), ["gold", "wrong"])

    assert report.checks[-1].findings
    assert "reward_rules" not in report.checks[-1].note


def test_a_hostile_answer_has_a_time_limit_of_its_own() -> None:
    async def verify(self: Any, answer: str) -> float:
        await asyncio.sleep(30 if answer.startswith("((((") else 0)
        return 0.0

    cls = type("Sums", (Environment,), {"verify": verify})
    report = examined(cls, ["hostile"], hostile_answer_s=0.2, largest=10_000)

    assert {finding.kind for finding in report.checks[0].findings} == {
        "hostile: brackets",
        "hostile: deep brackets",
    }
    assert report.checks[0].findings[0].problem == "was not verified within 0.2 s"


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        (lambda self: 4, "gold of sums returned 4"),
        (lambda self, task: task["nofield"], "gold of sums raised KeyError for a row: 'nofield'"),
    ],
)
def test_a_gold_that_cannot_be_used_is_named_as_the_author_wrote_it(
    gold: Any, problem: str
) -> None:
    cls = type("Sums", (Environment,), {"gold": gold, "verify": lambda self, answer: 1.0})
    report = examined(cls, ["gold"])

    place = f"{Path(__file__).name}:{gold.__code__.co_firstlineno}: "
    assert [finding.problem.rpartition("/")[2] for finding in report.checks[0].findings] == [
        place + problem
    ]

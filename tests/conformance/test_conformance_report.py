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
    report = asyncio.run(check_environment(subject, ExaminationLimits(), steps=["gold"]))

    place = f"{Path(__file__).name}:{gold.__code__.co_firstlineno}: "
    assert [finding.problem.rpartition("/")[2] for finding in report.checks[0].findings] == [
        place + problem
    ]

"""Bugs that were planted in verifiers are found, and a sound verifier passes."""

import asyncio
from dataclasses import replace

import pytest
from planted import (
    BUGGY,
    JUDGE,
    SOUND,
    AsksAJudge,
    Sound,
)

from palestra.config import config_from_tree
from palestra.conformance import (
    ExaminationLimits,
    ExaminedEnvironment,
    VerifierReport,
    check_environment,
)
from palestra.fleet import server_client
from palestra.server import ResourcesServerConfig

LIMITS = ExaminationLimits(timeout_s=1.0, largest=30_000)
PATIENT_LIMITS = replace(LIMITS, timeout_s=60.0)
"""For verifiers without a fault: a machine that stands still for a second must not look like one."""


def examine(kind: type[Sound], limits: ExaminationLimits = LIMITS) -> VerifierReport:
    config = ResourcesServerConfig(name="planted")
    server = kind(config=config, server_client=server_client({}, {}))
    subject = ExaminedEnvironment(
        name="planted",
        config=config_from_tree({}),
        servers=(),
        judges=(JUDGE,) if issubclass(kind, AsksAJudge) else (),
        rows=kind.rows,
        ready={"planted": server},
    )
    return asyncio.run(check_environment(subject, limits))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_verifier_passes(kind: type[Sound]) -> None:
    report = examine(kind, PATIENT_LIMITS)

    assert report.passed, [check for check in report.checks if check.findings]


# Some of the bugs take all the time that they are given.
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", BUGGY)
def test_a_planted_bug_is_found_and_told_with_what_did_it(kind: type[Sound]) -> None:
    findings = [finding for check in examine(kind).checks for finding in check.findings]

    assert findings
    assert all(finding.problem for finding in findings)
    assert any(finding.row is not None for finding in findings)

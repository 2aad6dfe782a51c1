"""Verifier fixtures: requests for a server's `verify`, with the reward or the error of each.

A server's `app.py` names its fixture, a JSONL file in its folder:

    VERIFIER_FIXTURE = "tests/verifier_fixture.jsonl"

Each line is one case:

    {"name": "right", "kind": "full_reward", "request": {...}, "expected_reward": 1.0}

- `full_reward`: the request gets the best reward;
- `zero_reward`: it gets no reward;
- `malformed`: the server refuses it, or gives it `expected_reward`;
- `determinism`: it gets the same reward each time.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palestra.errors import ConfigError, InputDataError
from palestra.schema import JsonDict, encode_json, read_jsonl
from palestra.system import write_whole

VERIFIER_FIXTURE: Final = "VERIFIER_FIXTURE"
EXPECTED_REWARD: Final = "expected_reward"
EXPECTED_ERROR: Final = "expected_error"
CLOSE: Final = 1e-9


class CaseKind(StrEnum):
    """What a case of a fixture shows of the verifier."""

    FULL_REWARD = "full_reward"
    ZERO_REWARD = "zero_reward"
    MALFORMED = "malformed"
    DETERMINISM = "determinism"


class FixtureCase(BaseModel):
    """One line of a fixture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    kind: CaseKind
    request: Any
    """The body of the `verify` request. Only a malformed one may be no object."""
    expected_reward: float | None = Field(default=None, allow_inf_nan=False)
    expected_error: int | str | None = None
    """The HTTP status, or a text that the error contains."""

    @model_validator(mode="after")
    def _has_one_expectation(self) -> Self:
        if self.expected_reward is not None and self.expected_error is not None:
            raise ValueError(f"a case has {EXPECTED_REWARD} or {EXPECTED_ERROR}, and not both")
        if self.expected_error is not None and self.kind is not CaseKind.MALFORMED:
            raise ValueError(f"{EXPECTED_ERROR} is for cases of kind malformed")
        if self.kind is not CaseKind.MALFORMED and not isinstance(self.request, dict):
            raise ValueError("request is a JSON object, the body of a verify request")
        return self


class Verdict(BaseModel):
    """What the server did with one request: `reward`, or `error` with its HTTP status."""

    model_config = ConfigDict(frozen=True)

    reward: float | None = None
    error: str = ""
    status: int | None = None


class CaseResult(BaseModel):
    """How a case ended. `problem`: what is wrong; empty when the case passed."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: CaseKind
    line: int
    """The line of the fixture, from 1."""
    expected: float | int | str | None
    verdict: Verdict
    problem: str = ""
    updated: dict[str, float | int] = Field(default_factory=dict)
    """The expectation that `--update-expected` writes; empty when that cannot make the case pass."""

    @property
    def passed(self) -> bool:
        """Whether the server did what the case expects."""
        return not self.problem


class FixtureReport(BaseModel):
    """The results of a server's fixture."""

    model_config = ConfigDict(frozen=True)

    server: str
    fixture: Path
    cases: tuple[CaseResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return all(case.passed for case in self.cases)

    @property
    def kinds(self) -> frozenset[CaseKind]:
        """The kinds of cases that the fixture has."""
        return frozenset(case.kind for case in self.cases)


def load_fixture(path: Path) -> dict[int, FixtureCase]:
    """Return the cases of a fixture by their lines.

    Raises InputDataError, which lists every wrong line: no JSON, an unknown key or kind, a name
    that is used twice. Also raised when the file is missing or has no case.
    """
    if not path.is_file():
        raise InputDataError(
            f"the fixture {path} does not exist",
            hint=f"{VERIFIER_FIXTURE} of app.py is its path in the server's folder",
        )
    cases: dict[int, FixtureCase] = {}
    problems: list[str] = []
    names: dict[str, int] = {}
    for line in read_jsonl(path):
        try:
            if line.error:
                raise ValueError(line.error)
            case = FixtureCase.model_validate(line.row)
            if case.name in names:
                raise ValueError(f"name {case.name!r} is that of line {names[case.name]} too")
        except ValidationError as error:
            problems.append(f"line {line.number}: {_sentences(error)}")
        except ValueError as error:
            problems.append(f"line {line.number}: {error}")
        else:
            names[case.name] = line.number
            cases[line.number] = case
    if problems:
        raise InputDataError(f"{path}: " + "; ".join(problems))
    if not cases:
        raise InputDataError(f"{path} has no cases")
    return cases


def _sentences(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'the case'}: {e['msg'].removeprefix('Value error, ')}"
        for e in error.errors(include_url=False)
    )


def judged(
    line: int,
    case: FixtureCase,
    verdicts: Sequence[Verdict],
    reward: "RewardRange | None" = None,
) -> CaseResult:
    """Return the result of a case. `verdicts`: one for each time that its request was verified."""
    verdict = verdicts[0]
    expected = expectation(case, reward)
    problem, updated = _differs(case, expected, verdict)
    if limit := _outside(case, verdict, reward):
        problem, updated = limit, {}
    rewards = {(v.reward, bool(v.error)) for v in verdicts}
    if len(rewards) > 1:
        values = ", ".join(sorted(_verdict_text(v) for v in verdicts))
        problem, updated = f"the same request got {values}", {}
    return CaseResult(
        name=case.name, kind=case.kind, line=line, expected=expected,
        verdict=verdict, problem=problem, updated=updated,
    )  # fmt: skip


class RewardRange(BaseModel):
    """The rewards that a manifest declares. `best`: the reward of a perfect answer."""

    model_config = ConfigDict(frozen=True)

    low: float
    high: float
    best: float


def expectation(case: FixtureCase, reward: RewardRange | None) -> float | int | str | None:
    """Return what a case expects: a reward, an error, or None when any result of its kind will do."""
    if case.expected_error is not None:
        return case.expected_error
    if case.expected_reward is not None:
        return case.expected_reward
    if case.kind is CaseKind.FULL_REWARD:
        return 1.0 if reward is None else reward.best
    return 0.0 if case.kind is CaseKind.ZERO_REWARD else None


def _differs(
    case: FixtureCase, expected: float | str | None, verdict: Verdict
) -> tuple[str, dict[str, float | int]]:
    """Return what differs from the expectation, and the expectation that would be met."""
    may_fail = case.kind is CaseKind.MALFORMED
    if verdict.reward is None:
        updated: dict[str, float | int] = {}
        if may_fail and verdict.status is not None:
            updated = {EXPECTED_ERROR: verdict.status}
        if may_fail and case.expected_reward is None and _is_error(expected, verdict):
            return "", updated if case.expected_error is None else {}
        prefix = f"expected {_spelled(expected)}, " if expected is not None else ""
        return f"{prefix}got the error {_verdict_text(verdict)}", updated
    updated = {EXPECTED_REWARD: verdict.reward}
    if case.expected_error is not None or (may_fail and case.expected_reward is None):
        return f"expected an error, got {verdict.reward:g}", updated
    if isinstance(expected, float) and abs(verdict.reward - expected) > CLOSE:
        return f"expected {expected:g}, got {verdict.reward:g}", updated
    return "", {} if case.expected_reward is not None else updated


def _outside(case: FixtureCase, verdict: Verdict, reward: RewardRange | None) -> str:
    """Return how a reward contradicts the declared range; empty when it does not."""
    if reward is None or verdict.reward is None:
        return ""
    if not reward.low - CLOSE <= verdict.reward <= reward.high + CLOSE:
        return (
            f"got {verdict.reward:g}, and the manifest's range is {reward.low:g} to {reward.high:g}"
        )
    is_best = abs(verdict.reward - reward.best) <= CLOSE
    if case.kind is CaseKind.FULL_REWARD and not is_best and abs(reward.best) != float("inf"):
        return f"got {verdict.reward:g}, and the manifest's best reward is {reward.best:g}"
    if case.kind is CaseKind.ZERO_REWARD and is_best:
        return f"got {verdict.reward:g}, which is the manifest's best reward"
    return ""


def _is_error(expected: float | str | None, verdict: Verdict) -> bool:
    if expected is None:
        return True
    if isinstance(expected, int) and not isinstance(expected, bool):
        return verdict.status == expected
    return str(expected).casefold() in f"{verdict.status} {verdict.error}".casefold()


def _spelled(expected: float | str | None) -> str:
    return f"{expected:g}" if isinstance(expected, float) else f"the error {expected}"


def _verdict_text(verdict: Verdict) -> str:
    if verdict.reward is not None:
        return f"{verdict.reward:g}"
    return f"{verdict.status or ''} {verdict.error}".strip()


def update_expected(report: FixtureReport) -> list[str]:
    """Write the results of a fixture into it as expectations. Return the names of changed cases.

    Other lines keep their bytes. A case whose result contradicts its kind or the declared range is
    not changed.

    Raises ConfigError: the file cannot be written; it is then as it was.
    """
    updates = {case.line: case for case in report.cases if case.updated}
    if not updates:
        return []
    lines = report.fixture.read_bytes().splitlines(keepends=True)
    for number, case in updates.items():
        row: JsonDict = orjson.loads(lines[number - 1])
        lines[number - 1] = encode_json(_with_expectation(row, case.updated)) + b"\n"
    try:
        write_whole(report.fixture, b"".join(lines))
    except OSError as error:
        raise ConfigError(f"{report.fixture}: {error.strerror}") from error
    return [case.name for case in updates.values()]


def _with_expectation(row: JsonDict, updated: Mapping[str, Any]) -> JsonDict:
    bare = {key: row[key] for key in row if key not in {EXPECTED_REWARD, EXPECTED_ERROR}}
    return {**bare, **updated}

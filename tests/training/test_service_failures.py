"""Errors cross the rollout service with their class and their fields."""

import pytest
from outcome_samples import completed, failed

from palestra.errors import (
    CallEvidence,
    ConfigError,
    CredentialsRejected,
    Hop,
    InputDataError,
    PalestraError,
    RunFailed,
    ServerDied,
    VerifierError,
)
from palestra.training import (
    Cause,
    IncompleteRollouts,
    InvalidLogprobs,
    Key,
    NoTokenIds,
    TokenDiscontinuity,
)
from palestra.training.service.failures import error_from_json, error_to_json


def crossed(error: PalestraError) -> PalestraError:
    rebuilt = error_from_json(error_to_json(error))
    assert rebuilt is not None
    return rebuilt


def incomplete() -> IncompleteRollouts:
    error = IncompleteRollouts(
        requested=3,
        received=1,
        missing=(Key("a", 0), Key(1, 2)),
        cause=Cause(
            sentence="agent x was killed", process="x", pid=7, signal="SIGKILL", stack=("f", "g")
        ),
        failures={"infra_error": 2},
        log_tails={"x": ("the last line",)},
        least=2,
    )
    error.outcomes = (completed(), failed(1, 2))
    return error


@pytest.mark.parametrize(
    "error",
    [
        incomplete(),
        NoTokenIds(4, "the endpoint gives none"),
        InvalidLogprobs(Key(0, 1), turn=2, position=None, value="nan", message="one is NaN"),
        TokenDiscontinuity(
            Key("t", 0), turn=1, position=5, expected=(1, 2), returned_ids=(3,), message="differs"
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_ends_a_batch_keeps_its_fields(error: PalestraError) -> None:
    rebuilt = crossed(error)

    assert type(rebuilt) is type(error)
    assert vars(rebuilt) == {"outcomes": (), **vars(error)}
    assert str(rebuilt) == str(error)


@pytest.mark.parametrize("cls", [InputDataError, ConfigError, RunFailed])
def test_other_errors_keep_their_class_and_hint(cls: type[PalestraError]) -> None:
    rebuilt = crossed(cls("it is wrong", hint="make it right"))

    assert type(rebuilt) is cls
    assert (rebuilt.message, rebuilt.hint) == ("it is wrong", "make it right")
    assert rebuilt.exit_code == cls.exit_code


def test_a_class_that_is_not_sent_becomes_the_one_above_it() -> None:
    assert type(crossed(ServerDied("x died"))) is RunFailed


@pytest.mark.parametrize("cls", [CredentialsRejected, VerifierError])
def test_an_error_of_a_call_keeps_the_servers_that_it_passed(cls: type[PalestraError]) -> None:
    evidence = CallEvidence(hops=(Hop("agent", "http://a", 500, "body"),))

    rebuilt = crossed(cls("it failed", evidence=evidence))  # type: ignore[call-arg]  # of a call

    assert type(rebuilt) is cls
    assert rebuilt.evidence.hops == evidence.hops  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"<html>", b'{"error": {"type": "x"}}'])
def test_what_is_no_error_of_a_service_is_none(body: bytes) -> None:
    assert error_from_json(body) is None

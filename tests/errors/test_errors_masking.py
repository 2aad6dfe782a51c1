"""Secrets are taken out of all that an error says."""

from palestra.errors import (
    CallEvidence,
    ConfigError,
    FieldProblem,
    Hop,
    RowIdentity,
    VerifierError,
    mask_error,
    to_body,
)


def mask(text: str) -> str:
    return text.replace("sk-1", "****")


def test_no_part_of_a_failed_call_keeps_a_secret() -> None:
    evidence = CallEvidence(
        hops=(Hop("env", "http://u:sk-1@env/verify", 500), Hop("m", "http://m", 401, "key sk-1")),
        problems=(FieldProblem("/sk-1", "not sk-1"),),
        row=RowIdentity(task=1),
        traceback="app.py:3 in verify: sk-1",
        judge_question="Is it sk-1?",
    )
    error = VerifierError("raised sk-1", hint="check sk-1", evidence=evidence)
    mask_error(error, mask)

    assert "sk-1" not in f"{to_body(error)} {error} {error.__notes__} {error!r}"
    assert error.evidence.hops[1].body == "key ****"
    assert error.evidence.row == RowIdentity(task=1)


def test_an_error_that_is_no_failed_call_is_masked_too() -> None:
    error = ConfigError("no sk-1 here", hint="sk-1")
    mask_error(error, mask)

    assert (error.message, error.hint, str(error)) == ("no **** here", "****", "no **** here")

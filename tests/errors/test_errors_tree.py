"""The exception tree: what every class of it promises."""

import palestra.errors
from palestra.errors import (
    FAILURES,
    BadInput,
    CallError,
    ConfigError,
    Layer,
    Outcome,
    PalestraError,
    Problem,
    RunFailed,
    ServerDied,
    mask_error,
)
from palestra.errors.envelope import _CLASSES
from palestra.transport import ConnectionFailed


def test_everything_in_all_exists() -> None:
    assert all(hasattr(palestra.errors, name) for name in palestra.errors.__all__)


def test_the_hint_is_a_note_so_that_a_traceback_shows_it() -> None:
    assert ConfigError("bad", hint="do this").__notes__ == ["hint: do this"]
    assert not hasattr(ConfigError("bad"), "__notes__")


def test_bad_input_exits_with_2_and_a_failed_run_with_1() -> None:
    assert BadInput.exit_code == ConfigError.exit_code == 2
    assert RunFailed.exit_code == ServerDied.exit_code == PalestraError.exit_code == 1


def test_every_call_error_s_outcome_and_layer_are_words_of_the_report() -> None:
    for cls in _CLASSES:
        assert isinstance(cls.outcome, Outcome)
        assert isinstance(cls.layer, Layer)


def test_every_outcome_that_a_call_can_have_survives_the_wire() -> None:
    outcomes = {cls.outcome for cls in _CLASSES}

    # Neither a cancelled rollout nor a stale one makes a call that could carry its failure.
    assert outcomes == set(FAILURES) - {Outcome.CANCELLED, Outcome.STALE}
    assert issubclass(ConnectionFailed, CallError)
    assert ConnectionFailed.outcome is Outcome.INFRA_ERROR


def test_a_mask_covers_the_problems_of_a_configuration_too() -> None:
    error = ConfigError("2 problems", problems=(Problem("key sk-1 is refused", hint="not sk-1"),))

    mask_error(error, lambda text: text.replace("sk-1", "****"))

    (problem,) = error.problems
    assert (problem.message, problem.hint) == ("key **** is refused", "not ****")

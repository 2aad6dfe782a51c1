import pickle

import pytest

from palestra.training import (
    BatchFailed,
    Cause,
    Chain,
    Completed,
    Evidence,
    Failed,
    FailureClass,
    IncompleteRollouts,
    InvalidLogprobs,
    Key,
    Outcome,
    RawRow,
    Summary,
    Timings,
    TokenDiscontinuity,
    Turn,
    outcome_from_json,
    outcome_to_json,
)

TURNS = [
    Turn([1, 2, 3], [4, 5], [-0.1, -0.2], 7, 7),
    Turn([6], [8], [-0.3], 7, 8),
]
COMPLETED = Completed(
    task_id="t",
    rollout_index=1,
    group_id="g",
    attempt=2,
    reward=0.5,
    reward_components={"format": 0.5},
    chains=[Chain(TURNS)],
    stop_reason="stop",
    timings=Timings(0.1, 0.2),
    raw=RawRow({"reward": 0.5}),
)
FAILED = Failed(
    task_id=3,
    rollout_index=0,
    group_id=3,
    failure=FailureClass.VERIFIER_ERROR,
    layer="verifier/runtime",
    retriable=False,
    attempts=1,
    message="it raised",
    evidence=Evidence(body="{}", log_tail=["x.py:3 in verify"]),
)
ERRORS = [
    IncompleteRollouts(
        requested=3,
        received=1,
        missing=(Key(1, 0), Key("b", 2)),
        cause=Cause(sentence="it was killed", signal="SIGKILL", pid=4, setting="lower in_flight"),
        failures={"infra": 2},
        log_tails={"agent": ("last", "lines")},
    ),
    InvalidLogprobs(Key(1, 0), turn=0, position=2, value="nan", message="a NaN"),
    TokenDiscontinuity(
        Key(1, 0), turn=1, position=9, expected=(1, 2), returned_ids=(1, 3), message="it differs"
    ),
]


def test_the_flat_view_is_the_one_made_by_hand() -> None:
    flat = COMPLETED.flat

    assert flat.ids == [1, 2, 3, 4, 5, 6, 8]
    assert flat.loss_mask == [0, 0, 0, 1, 1, 0, 1]
    assert flat.logprobs == [0.0, 0.0, 0.0, -0.1, -0.2, 0.0, -0.3]


def test_a_turn_without_log_probs_is_not_trained_on() -> None:
    flat = Chain([Turn([1], [2, 3], []), Turn([4], [5], [-1.0])]).flat

    assert flat.ids == [1, 2, 3, 4, 5]
    assert flat.loss_mask == [0, 0, 0, 0, 1]
    assert flat.logprobs == [0.0, 0.0, 0.0, 0.0, -1.0]


def test_a_rollout_of_several_chains_has_no_single_sequence() -> None:
    split = Completed(
        task_id=0,
        rollout_index=0,
        group_id=0,
        attempt=1,
        reward=1.0,
        chains=[Chain(TURNS[:1]), Chain(TURNS[1:])],
        timings=Timings(0, 0),
        raw=RawRow({}),
    )

    with pytest.raises(ValueError, match="2 chains"):
        _ = split.flat


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED])
def test_an_outcome_crosses_processes_and_files(outcome: Outcome) -> None:
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert outcome_from_json(outcome_to_json(outcome)) == outcome


def test_a_failed_rollout_has_no_reward() -> None:
    assert not hasattr(FAILED, "reward")
    assert b"reward" not in outcome_to_json(FAILED)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_all_it_knows(error: BatchFailed) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert (str(copy), copy.args) == (str(error), error.args)


def test_the_message_names_what_is_missing_and_why() -> None:
    message = str(ERRORS[0])

    assert message.startswith("NeMo Gym returned only 1 rollouts but 3 were requested.")
    assert isinstance(ERRORS[0], RuntimeError)
    for part in ("1:0", "b:2", "it was killed", "last"):
        assert part in message
    assert ERRORS[0].hint == "lower in_flight"


def test_a_summary_that_does_not_add_up_says_so() -> None:
    assert Summary(requested=3, completed=1, failed={"infra": 1}, pending=1).adds_up
    assert not Summary(requested=3, completed=1, failed={"infra": 1}, pending=0).adds_up

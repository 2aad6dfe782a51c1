"""Which rollouts a model has answered."""

from palestra.config import ServerType
from palestra.errors import RowIdentity
from palestra.transport import AnsweredRollouts, CallContext, HttpClient, ServerClient, Target


def of(task: int, *, run: str = "run", judge: bool = False) -> CallContext:
    return CallContext(RowIdentity(task, 0, run=run), in_environment=judge)


def test_a_rollout_is_known_once_its_policy_has_answered() -> None:
    answered = AnsweredRollouts()

    answered.note(of(1, judge=True))
    assert answered.knows(of(1)) is False

    answered.note(of(1))
    assert answered.knows(of(1)) is True
    assert answered.knows(of(1, run="other")) is False


def test_what_is_remembered_is_bounded_and_what_was_forgotten_is_not_denied() -> None:
    answered = AnsweredRollouts(most_rollouts=2)

    for task in (1, 2, 1, 3):
        answered.note(of(task))

    assert [answered.knows(of(task)) for task in (1, 2, 3)] == [True, None, True]


def test_a_call_without_a_run_is_of_no_rollout_that_is_known() -> None:
    answered = AnsweredRollouts()

    answered.note(of(1, run=""))

    assert answered.knows(of(1, run="")) is None
    assert answered.knows(CallContext()) is None


def test_the_same_rollout_of_a_run_that_is_made_again_is_not_known_to_be_answered() -> None:
    answered, row = AnsweredRollouts(), RowIdentity(1, 0, run="run")

    answered.note(CallContext(row, deadline=1000.0))

    assert answered.knows(CallContext(row, deadline=999.0)) is True
    assert answered.knows(CallContext(row, deadline=1060.0)) is None


def test_what_another_process_has_answered_is_not_known() -> None:
    models = {
        name: Target(name, ServerType.MODEL, (f"http://{name}",)) for name in ("policy", "second")
    }

    assert ServerClient(models, HttpClient()).answered.knows(of(1)) is None
    del models["second"]
    assert ServerClient(models, HttpClient()).answered.knows(of(1)) is False

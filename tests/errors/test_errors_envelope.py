"""What crosses the wire when a call fails, and what of it comes back."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.errors import (
    AgentError,
    CallError,
    CallEvidence,
    CredentialsRejected,
    DeadlineExceeded,
    EnvironmentFault,
    FieldProblem,
    Hop,
    Hopeless,
    InfraError,
    JudgeFailure,
    JudgeUnavailable,
    KnownCause,
    Layer,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    Outcome,
    RowError,
    RowIdentity,
    VerifierError,
    WrongSetting,
    add_hop,
    add_row,
    excerpt,
    from_body,
    status_for,
    to_body,
)
from palestra.errors.envelope import BODY_EXCERPT_CHARS

CLASSES = [
    AgentError,
    CredentialsRejected,
    DeadlineExceeded,
    EnvironmentFault,
    Hopeless,
    InfraError,
    JudgeFailure,
    JudgeUnavailable,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    RowError,
    VerifierError,
    WrongSetting,
]
TEXT = st.text(max_size=40)
HOPS = st.builds(Hop, TEXT, TEXT, st.none() | st.integers(100, 599), TEXT)
ROWS = st.builds(
    RowIdentity,
    task=st.none() | st.integers(0) | TEXT,
    rollout=st.none() | st.integers(0),
    attempt=st.integers(1, 9),
    agent=TEXT,
    run=TEXT,
)
EVIDENCE = st.builds(
    CallEvidence,
    hops=st.lists(HOPS, max_size=4).map(tuple),
    row=st.none() | ROWS,
    problems=st.lists(st.builds(FieldProblem, TEXT, TEXT), max_size=3).map(tuple),
    traceback=TEXT,
    judge_question=TEXT,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def over_the_wire(error: CallError) -> CallError | None:
    return from_body(json.loads(json.dumps(to_body(error))))


@given(st.sampled_from(CLASSES), TEXT, TEXT, EVIDENCE)
def test_a_failure_comes_back_as_it_was_sent(
    cls: type[CallError], message: str, hint: str, evidence: CallEvidence
) -> None:
    found = over_the_wire(cls(message, hint=hint, evidence=evidence))

    assert found is not None
    assert type(found) is cls
    assert (found.outcome, found.layer, found.retriable) == (cls.outcome, cls.layer, cls.retriable)
    assert (found.message, found.hint, found.evidence) == (message, hint, evidence)


def test_the_row_of_an_envelope_says_which_run_it_belongs_to() -> None:
    row = RowIdentity(task=1, rollout=2, attempt=3, agent="a", run="run-7")
    sent = to_body(InfraError("gone", evidence=CallEvidence(row=row)))["error"]

    assert sent["row"] == {"run": "run-7", "task": 1, "rollout": 2, "attempt": 3, "agent": "a"}


class EngineGone(InfraError):
    """A failure that is final, of a kind that as a rule is not."""

    retriable = False


def test_a_final_failure_stays_final_over_the_wire() -> None:
    found = over_the_wire(EngineGone("the engine ended"))

    assert type(found) is InfraError
    assert found.retriable is False
    assert InfraError("another").retriable is True


def test_a_final_failure_of_a_judges_endpoint_keeps_its_layer_over_the_wire() -> None:
    failure = JudgeFailure.of(ModelRejectedRow("no such tool"))

    found = over_the_wire(failure)

    assert type(found) is JudgeUnavailable
    assert (found.layer, found.retriable) == (Layer.MODEL, False)


@given(st.sampled_from(CLASSES), EVIDENCE)
def test_a_failure_relayed_twice_has_the_same_body_but_for_its_hops(
    cls: type[CallError], evidence: CallEvidence
) -> None:
    once = over_the_wire(cls("it broke", evidence=evidence))
    assert once is not None
    twice = over_the_wire(add_hop(once, Hop("agent", "http://agent/run", 500)))

    assert twice is not None
    assert twice.message == "it broke"
    assert [hop.server for hop in twice.evidence.hops[1:]] == [h.server for h in evidence.hops]
    assert twice.evidence.hops[0] == Hop("agent", "http://agent/run", 500)


@given(JSON)
def test_a_body_of_somebody_else_is_none_of_ours(body: Any) -> None:
    assert from_body(body) is None
    assert from_body({"error": body}) is None


WORDS = st.sampled_from([*Outcome, *Layer, "", 0])


@given(WORDS, WORDS, JSON, JSON, JSON)
def test_a_body_with_our_words_in_other_shapes_is_read_or_refused_but_never_raises(
    kind: Any, layer: Any, hops: Any, row: Any, problems: Any
) -> None:
    body = {"type": kind, "layer": layer, "hops": hops, "row": row, "problems": problems}

    assert isinstance(from_body({"error": body}), CallError | None)


def test_an_endpoint_s_own_error_with_hops_in_it_is_foreign() -> None:
    assert from_body({"error": {"type": "infra_error", "layer": "infra", "hops": 3}}) is None
    assert from_body({"error": {"layer": "infra", "hops": []}}) is None


def test_an_inner_server_s_row_is_kept() -> None:
    inner, outer = RowIdentity(task=1, rollout=2), RowIdentity(task=9)
    error = add_row(InfraError("gone"), inner)

    assert add_row(error, outer).evidence.row == inner
    assert add_row(InfraError("gone"), None).evidence.row is None


@pytest.mark.parametrize("size", [0, 1, BODY_EXCERPT_CHARS])
def test_a_body_within_bounds_is_kept_whole(size: int) -> None:
    assert excerpt("x" * size) == "x" * size
    assert excerpt(b"x" * size) == "x" * size


def test_a_longer_body_is_cut_and_says_how_long_it_was() -> None:
    cut = excerpt("x" * (BODY_EXCERPT_CHARS + 1))

    assert cut == "x" * BODY_EXCERPT_CHARS + "… (4001 characters in all)"


def test_a_body_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    assert excerpt(b"ok \xff\xfe") == "ok \ufffd\ufffd"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RowError("bad body"), 422),
        (DeadlineExceeded("late"), 504),
        (ModelRejectedRow("bad schema"), 400),
        (VerifierError("raised"), 500),
        (InfraError("refused"), 500),
    ],
)
def test_the_status_says_whose_fault_it_is(error: CallError, status: int) -> None:
    assert status_for(error) == status


def test_words_that_are_no_text_do_not_keep_a_failure_from_its_caller() -> None:
    error = VerifierError("caf\udce9", evidence=CallEvidence(hops=(Hop("env", body="\udce9"),)))
    came = from_body(orjson.loads(orjson.dumps(to_body(error))))

    assert came is not None
    assert (came.message, came.evidence.hops[0].body) == ("caf\\udce9", "\\udce9")


def test_a_reason_that_is_not_known_here_leaves_the_kind_as_it_is() -> None:
    body = to_body(CredentialsRejected("no"))
    body["error"]["reason"] = "of_tomorrow"

    assert type(from_body(body)) is Hopeless


def test_what_went_wrong_arrives_with_the_failure_and_an_unknown_word_does_not() -> None:
    sent = to_body(WrongSetting("no tools", cause=KnownCause.NO_TOOLS))
    of_tomorrow = json.loads(json.dumps(sent))
    of_tomorrow["error"]["cause"] = "model.of-tomorrow"

    came, other = from_body(sent), from_body(of_tomorrow)

    assert (type(came), came.cause if came else None) == (WrongSetting, KnownCause.NO_TOOLS)
    assert other is not None
    assert other.cause is KnownCause.ENDPOINT_LACKS_SETTING

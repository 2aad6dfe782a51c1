import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_world import answer, heard, said

from palestra.schema import (
    Response,
    TokenFault,
    TokenVerdict,
    TurnTokens,
    first_difference,
    tokens_on,
)
from palestra.server import CapturedTurn, TurnsTaken
from palestra.training import InvalidLogprobs, Key, OnViolation, TokenDiscontinuity
from palestra.training.chains import Chained, RawTurn, chained
from palestra.training.tokens import read_turns

KEY = Key(1, 0)


def raw(prompt: list[int], generated: list[int], logprobs: list[float]) -> RawTurn:
    """A turn of which nothing was captured."""
    tokens = TurnTokens(prompt, generated, logprobs)
    return RawTurn(tokens, tokens.verdict)


IDS = st.lists(st.integers(0, 50_000), min_size=1, max_size=12)


@st.composite
def clean_traces(draw: st.DrawFn, least: int = 1) -> list[RawTurn]:
    """Turns whose prompts start with all ids so far."""
    turns: list[RawTurn] = []
    seen: list[int] = []
    for _ in range(draw(st.integers(least, 5))):
        prompt = seen + draw(IDS)
        generated = draw(IDS)
        logprobs = draw(
            st.lists(st.floats(-50, 0), min_size=len(generated), max_size=len(generated))
        )
        turns.append(raw(prompt, generated, logprobs))
        seen = prompt + generated
    return turns


def check(turns: list[RawTurn], policy: OnViolation = OnViolation.RAISE) -> Chained:
    return chained(turns, KEY, on_invalid_logprobs=policy, on_discontinuity=policy)


@pytest.mark.slow
@given(clean_traces())
def test_a_clean_trace_is_one_chain_of_exactly_its_ids(turns: list[RawTurn]) -> None:
    found = check(turns)

    assert (len(found.chains), found.masked) == (1, "")
    assert found.chains[0].flat.ids == turns[-1].tokens.all
    assert sum(found.chains[0].flat.loss_mask) == sum(len(turn.tokens.generation) for turn in turns)


@pytest.mark.slow
@given(clean_traces(least=2), st.data())
def test_every_change_of_ids_that_were_seen_is_found(
    turns: list[RawTurn], data: st.DataObject
) -> None:
    """Re-tokenised (one id becomes others), fabricated, shifted, cut: wherever it is planted."""
    at = data.draw(st.integers(1, len(turns) - 1))
    seen = turns[at - 1].tokens.all
    place = data.draw(st.integers(0, len(seen) - 1))
    kind = data.draw(st.sampled_from(["retokenised", "fabricated", "shifted", "shortened"]))
    tokens = turns[at].tokens
    prompt = tokens.prompt
    drifted = {
        "retokenised": [*prompt[:place], 60_001, 60_002, *prompt[place + 1 :]],
        "fabricated": [*prompt[:place], prompt[place] + 1, *prompt[place + 1 :]],
        "shifted": [60_003, *prompt],
        "shortened": prompt[:place],
    }[kind]
    planted = [*turns[:at], raw(drifted, tokens.generation, tokens.log_probs)]

    with pytest.raises(TokenDiscontinuity) as found:
        check(planted)

    assert found.value.turn == at
    assert found.value.position == first_difference(seen, drifted)
    assert found.value.position == (0 if kind == "shifted" else place)


@pytest.mark.slow
@given(clean_traces(), st.data())
def test_ids_that_the_model_server_did_not_sample_are_found(
    turns: list[RawTurn], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(turns) - 1))
    calls = [(turn.tokens.prompt, turn.tokens.generation) for turn in turns]
    prompt, sampled = calls[at]
    place = data.draw(st.integers(0, len(sampled) - 1))
    ids = [*sampled[:place], sampled[place] + 1, *sampled[place + 1 :]]

    with pytest.raises(TokenDiscontinuity, match="differ from the received ones") as found:
        checked(known(*calls[:at], (prompt, ids)), captured(*calls[: at + 1]))

    assert (found.value.turn, found.value.position) == (at, len(prompt) + place)


@pytest.mark.parametrize("no_id", [-1, None, "5", 1.0, True])
def test_what_is_no_token_id_is_found(no_id: object) -> None:
    with pytest.raises(TokenDiscontinuity, match="is not a token id"):
        check([raw([1, 2], [3, no_id], [-1.0, -1.0])])  # type: ignore[list-item]  # planted


@given(clean_traces(), st.sampled_from([math.nan, math.inf, -math.inf, 0.1, None, "x"]), st.data())
def test_every_log_prob_that_is_none_is_found(
    turns: list[RawTurn], bad: float, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(turns) - 1))
    tokens = turns[at].tokens
    place = data.draw(st.integers(0, len(tokens.log_probs) - 1))
    logprobs = [*tokens.log_probs[:place], bad, *tokens.log_probs[place + 1 :]]
    planted = [*turns[:at], raw(tokens.prompt, tokens.generation, logprobs), *turns[at + 1 :]]

    with pytest.raises(InvalidLogprobs) as found:
        check(planted)

    assert (found.value.turn, found.value.position) == (at, place)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_log_probs_as_ids_are_needed(count: int) -> None:
    with pytest.raises(InvalidLogprobs, match=f"{count} log probs for 2 ids"):
        check([raw([1], [2, 3], [-1.0] * count)])


@pytest.mark.parametrize("policy", [OnViolation.MASK, OnViolation.SPLIT])
@pytest.mark.parametrize("ids", [[3, None], [3, 9]], ids=["no id", "not sampled"])
def test_ids_that_nobody_sampled_are_trained_on_under_no_policy(
    policy: OnViolation, ids: list[int]
) -> None:
    clean = ([7], [8])
    read = read_turns(known(clean, ([1, 2], ids)), captured(clean, ([1, 2], [3, 4])), (None, None))

    found = check(read.turns, policy)

    assert found.chains == []
    assert found.masked


def test_log_probs_whose_sum_is_too_much_are_fine_one_by_one() -> None:
    assert check([raw([1], [2, 3], [-1e308, -1e308])]).masked == ""


def test_rounding_above_zero_is_tolerated() -> None:
    assert check([raw([1], [2], [1e-6])]).chains[0].turns[0].logprobs == [1e-6]


def test_split_makes_a_chain_of_each_part_that_hangs_together() -> None:
    turns = [
        raw([1], [2], [-1.0]),
        raw([1, 2, 3], [4], [-1.0]),
        raw([9, 9], [5], [-1.0]),
    ]

    found = check(turns, OnViolation.SPLIT)

    assert [chain.flat.ids for chain in found.chains] == [[1, 2, 3, 4], [9, 9, 5]]
    assert found.masked == ""


def nan_at(*at: int, turns: int = 2) -> list[RawTurn]:
    """Turns that continue each other; the log probs of those `at` these numbers are no numbers."""
    ids = list(range(2 * turns))
    return [
        raw(ids[: 2 * number + 1], [2 * number + 1], [math.nan if number in at else -1.0])
        for number in range(turns)
    ]


@pytest.mark.parametrize("policy", [OnViolation.MASK, OnViolation.SPLIT])
def test_a_rollout_without_one_trainable_turn_is_masked_under_every_policy(
    policy: OnViolation,
) -> None:
    found = check(nan_at(0, 1), policy)

    assert sum(sum(chain.flat.loss_mask) for chain in found.chains) == 0
    assert "nan at 0 is not a log probability" in found.masked


def test_split_with_one_valid_turn_is_not_masked() -> None:
    found = check(nan_at(0), OnViolation.SPLIT)

    assert (found.chains[0].flat.loss_mask, found.masked) == ([0, 0, 0, 1], "")


@pytest.mark.parametrize("policy", OnViolation)
def test_a_rollout_that_sampled_no_token_is_masked_under_every_policy(policy: OnViolation) -> None:
    found = check([raw([1, 2], [], [])], policy)

    assert found.masked == "no trainable token: the model sampled no token"


def test_mask_says_why_and_trains_on_nothing_wrong() -> None:
    found = check([raw([1], [2], [math.nan]), raw([1, 2], [3], [-1.0])], OnViolation.MASK)

    assert "nan at 0 is not a log probability" in found.masked
    assert found.chains[0].flat.loss_mask == [0, 0, 1]


def response(*output: dict[str, object]) -> Response:
    return Response.model_validate(answer(1.0, *output)["response"])


def captured(*turns: tuple[list[int], list[int]], **fields: int) -> TurnsTaken:
    return TurnsTaken(
        turns=[
            CapturedTurn(
                tokens=(tokens := TurnTokens(prompt, generated, [-1.0] * len(generated))),
                verdict=tokens.verdict,
                began=float(number),
                took_s=1.0,
                **fields,
            )
            for number, (prompt, generated) in enumerate(turns)
        ]
    )


def test_ids_that_an_agent_dropped_are_filled_in_from_the_capture() -> None:
    stripped = response(said(None), heard(), said(None))

    read = read_turns(stripped, captured(([1], [2]), ([1, 2, 3], [4])), (None, None))

    assert [(turn.tokens.prompt, turn.tokens.generation) for turn in read.turns] == [
        ([1], [2]),
        ([1, 2, 3], [4]),
    ]
    assert read.incomplete == ""


def test_a_turn_has_the_log_probs_and_the_verdict_of_the_call_that_it_is() -> None:
    changed_on_the_way = response(said([1], [2], [-9.0]))
    calls = captured(([1], [2]))
    calls.turns[0].verdict = TokenVerdict(
        log_probs=TokenFault("generation_log_probs", 0, "nan at 0 is not a log probability")
    )

    (turn,) = read_turns(changed_on_the_way, calls, (None, None)).turns

    assert turn.tokens.log_probs == [-1.0]
    with pytest.raises(InvalidLogprobs, match="nan at 0") as found:
        check([turn])
    assert (found.value.turn, found.value.position) == (0, 0)


def test_ids_that_agree_with_the_capture_are_in_memory_once() -> None:
    same = response(said([1], [2], [-1.0]))
    other_log_probs = response(said([1], [2], [-9.0]))

    (turn,) = read_turns(same, captured(([1], [2])), (None, None)).turns
    read_turns(other_log_probs, captured(([1], [2])), (None, None))

    on_item = tokens_on(same.output[0])
    assert on_item is not None
    assert on_item.prompt is turn.tokens.prompt
    assert on_item.log_probs is turn.tokens.log_probs
    assert tokens_on(other_log_probs.output[0]) == TurnTokens([1], [2], [-9.0])


def test_a_captured_turn_without_a_verdict_is_checked() -> None:
    calls = captured(([1], [-2]))
    calls.turns[0].verdict = None

    with pytest.raises(TokenDiscontinuity, match="-2 is not a token id") as found:
        checked(response(said(None)), calls)

    assert found.value.position == 1


def known(*turns: tuple[list[int], list[int]]) -> Response:
    items = [said(prompt, generated) for prompt, generated in turns]
    return response(*(one for item in items for one in (heard(), item)))


CLEAN = (([1], [2]), ([1, 2, 3], [4]))
EXTRA = ([50], [51])


def checked(output: Response, calls: TurnsTaken) -> Chained:
    return check(read_turns(output, calls, (None, None)).turns)


@pytest.mark.parametrize("extra_at", [0, 1, 2])
def test_calls_that_an_agent_does_not_show_are_no_alarm(extra_at: int) -> None:
    calls = [*CLEAN[:extra_at], EXTRA, *CLEAN[extra_at:]]

    assert len(checked(known(*CLEAN), captured(*calls)).chains) == 1


def test_calls_that_were_made_side_by_side_are_no_alarm() -> None:
    found = read_turns(known(*CLEAN), captured(*reversed(CLEAN)), (None, None))

    assert check(found.turns).masked == ""


@pytest.mark.parametrize("lost", [0, 1])
def test_a_turn_that_no_call_made_is_found_when_all_calls_are_remembered(lost: int) -> None:
    invented = ([1, 2, 3, 4], [5])
    calls = captured(*CLEAN)
    calls.lost = lost
    if lost:
        # It may be the one that was forgotten.
        assert checked(known(*CLEAN, invented), calls).masked == ""
        return
    with pytest.raises(TokenDiscontinuity, match="differ from the received ones") as found:
        checked(known(*CLEAN, invented), calls)

    assert found.value.turn == 2


@pytest.mark.parametrize("extra_at", [0, 1, 2])
def test_fabricated_ids_are_found_although_more_was_asked_than_is_shown(extra_at: int) -> None:
    calls = [*CLEAN[:extra_at], EXTRA, *CLEAN[extra_at:]]
    fabricated = known(CLEAN[0], ([1, 2, 3], [9]))

    with pytest.raises(TokenDiscontinuity) as found:
        checked(fabricated, captured(*calls))

    assert (found.value.turn, found.value.position) == (1, 3)


@pytest.mark.parametrize("calls", [None, captured(), captured(([1], [2]))])
def test_without_a_capture_of_every_turn_the_rollout_is_incomplete(calls: TurnsTaken) -> None:
    read = read_turns(response(said(None), heard(), said(None)), calls, (None, None))

    assert read.turns == []
    assert "incomplete capture: turn 0 of 2" in read.incomplete


def test_versions_are_those_of_each_call_where_the_model_server_knows_them() -> None:
    items = response(said([1], [2]), heard(), said([1, 2, 3], [4]))
    calls = captured(([1], [2]), ([1, 2, 3], [4]), weights_start=3, weights_end=4)

    known = read_turns(items, calls, (1, 9)).turns[1]
    unknown = read_turns(items, None, (1, 9)).turns[1]

    assert (known.weights_start, known.weights_end) == (3, 4)
    assert (unknown.weights_start, unknown.weights_end) == (1, 9)

from hypothesis import given
from hypothesis import strategies as st

from palestra.responses_api_models.vllm_model.splicing import closing_token, spliced
from palestra.responses_api_models.vllm_model.token_ids import Reason

CLOSING, NEWLINE, START = 2, 10, 1
words = st.lists(st.integers(20, 40), min_size=1, max_size=6)


def message(said: list[int]) -> list[int]:
    return [START, *said, CLOSING, NEWLINE]


@given(st.lists(words, min_size=1, max_size=4), words, words, words, st.booleans())
def test_the_ids_before_stay_and_only_the_new_message_is_taken_from_the_rendering(
    earlier: list[list[int]], written: list[int], again: list[int], new: list[int], cut: bool
) -> None:
    heard = [token for said in earlier for token in message(said)]
    before = [*heard, START, *written, *([] if cut else [CLOSING])]
    history = [*heard, *message(again)]
    rendered = [*history, *message(new), START]

    found = spliced(before, rendered, history, CLOSING)

    closing = [CLOSING] if cut else []
    assert found == [*before, *closing, NEWLINE, *message(new), START]


def test_a_template_that_renders_fewer_turns_is_not_spliced() -> None:
    before = [*message([20]), *message([21]), START, 22, CLOSING]
    history = [*message([21]), *message([22])]

    found = spliced(before, [*history, START], history, CLOSING)

    assert found is Reason.TEMPLATE


def test_without_a_closing_token_only_an_exact_rendering_continues() -> None:
    assert spliced([1, 2], [1, 2, 3], [1, 2], None) == [1, 2, 3]
    assert spliced([1, 2], [1, 4, 3], [1, 4], None) is Reason.TEMPLATE


@given(words, words)
def test_the_closing_token_is_where_two_answers_begin_to_agree(
    one: list[int], other: list[int]
) -> None:
    rendered = [
        [*message([50]), *message([*said, last])] for said, last in ((one, 60), (other, 61))
    ]

    assert closing_token(*rendered) == CLOSING


def test_answers_that_end_differently_show_no_closing_token() -> None:
    assert closing_token([1, 2, 3], [1, 2, 4]) is None

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import post_verify, recorded, said, server_of, verify

from palestra.resources_servers.string_match.app import (
    MODES,
    ExtractedAnswer,
    StringMatchServer,
    extracted,
)

ROW = {"expected_answer": "Pacific Ocean", "extraction_mode": "last_line"}


@pytest.mark.parametrize("has_mode", [True, False])
def test_recorded_rollouts_get_their_recorded_rewards(has_mode: bool) -> None:
    # They do not keep the mode; with or without it the answer is found.
    for row, result in recorded("string_match"):
        task = row if has_mode else {"expected_answer": result["expected_answer"]}
        ours = verify(server_of(StringMatchServer), task, *result["response"]["output"])

        assert ours["extracted_answer"] == result["extracted_answer"]
        assert ours["reward"] == result["reward"]


@pytest.mark.parametrize(
    ("mode", "text", "answer"),
    [
        ("boxed", r"\boxed{Rome} no: \(\boxed{\text{Paris}}\).", "Paris"),
        ("boxed", r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("boxed", r"$\boxed{\textbf{ a b }}$", "a b"),
        ("boxed", r"\boxed{a} and \boxed{", "a"),
        ("boxed", r"\boxed{\{a\}}", r"\{a\}"),
        ("boxed", r"\boxed{the sea, \boxed{a}}", "a"),
        ("boxed", "Paris", None),
        ("final_answer", "Answer: 1\n**Final answer:** 15", "15"),
        ("final_answer", "The final answer is: **15**\nBye", "15"),
        ("final_answer", "Final Answer:\n\n`15`", "15"),
        ("final_answer", r"Final answer: $\boxed{15}$.", "15"),
        ("final_answer", 'Answer: "so"', "so"),
        ("final_answer", "Final answer: **Paris**.", "Paris"),
        ("final_answer", 'Final answer: "**Paris**."', "Paris"),
        ("final_answer", "Answer: $15$. ", "15"),
        ("final_answer", "Answer: U.S.", "U.S."),
        ("final_answer", "15", None),
        ("final_answer", "Final answer:", None),
        ("last_line", "Well.\n\n  **Pacific Ocean** \n\n", "Pacific Ocean"),
        ("last_line", r"So: \fbox{\text{Paris}.}", "Paris"),
        ("last_line", "\u201cParis\u201d.", "Paris"),
        ("last_line", " \n", None),
        ("full", " a\nb ", "a\nb"),
        (None, r"\boxed{a} Final answer: b", "a"),
        (None, "Final answer: b\nc", "b"),
        (None, "b\nc", "c"),
        (None, "", None),
    ],
)
def test_an_answer_is_found_where_its_mode_says(mode: Any, text: str, answer: str | None) -> None:
    found = extracted(text, mode)

    assert (found and found.bare) == answer


@pytest.mark.parametrize("text", ["pacific  ocean", "So:\nPacific Ocean.", "PACIFIC OCEAN"])
def test_white_space_case_and_a_period_are_forgiven(text: str) -> None:
    assert verify(server_of(StringMatchServer), ROW, said(text))["reward"] == 1.0


@pytest.mark.parametrize("mode", ["boxed", "final_answer", "last_line", "full", None])
@pytest.mark.parametrize(
    "gold",
    ["$5", '"yes"', "__init__", "*args", r"50\%", r"\$5", "a_b", "*", ".", "`x`", r"\text{a}"],
)
def test_the_expected_answer_is_right_whatever_marks_it_has(mode: Any, gold: str) -> None:
    row = {"expected_answer": gold, "extraction_mode": mode}
    server = server_of(StringMatchServer)
    (message,) = server.gold_response(row).output

    assert verify(server, row, message.model_dump())["reward"] == 1.0


@pytest.mark.parametrize(
    ("box", "gold"),
    [
        (r"50\%", "50%"),
        (r"\$5", "$5"),
        (r"AT\&T", "AT&T"),
        (r"a\_b", "a_b"),
        (r"New\ York", "New York"),
        ("New~York", "New York"),
        (r"\text{New }\text{York}", "New York"),
        (r"\textbf{New} York", "New York"),
        ("__init__", "init"),
    ],
)
def test_latex_around_and_within_an_answer_is_read(box: str, gold: str) -> None:
    row = {"expected_answer": gold, "extraction_mode": "boxed"}

    assert verify(server_of(StringMatchServer), row, said(f"\\boxed{{{box}}}"))["reward"] == 1.0


@pytest.mark.parametrize(("gold", "text"), [("*", r"\boxed{$}"), (".", r"\boxed{}")])
def test_marks_alone_are_not_any_other_marks(gold: str, text: str) -> None:
    row = {"expected_answer": gold, "extraction_mode": "boxed"}

    assert verify(server_of(StringMatchServer), row, said(text))["reward"] == 0.0


@pytest.mark.parametrize("text", ["", "Pacific", "The Pacific Ocean", "Pacific Ocean\nor not"])
def test_anything_else_is_not(text: str) -> None:
    assert verify(server_of(StringMatchServer), ROW, said(text))["reward"] == 0.0


def test_case_counts_where_the_row_says_so() -> None:
    row = {**ROW, "case_sensitive": True}

    assert verify(server_of(StringMatchServer), row, said("pacific ocean"))["reward"] == 0.0
    assert verify(server_of(StringMatchServer), row, said("Pacific Ocean"))["reward"] == 1.0


@pytest.mark.parametrize("fields", [{"expected_answer": " "}, {"extraction_mode": "first_line"}])
def test_a_row_that_nobody_could_win_is_the_rows_fault(fields: dict[str, Any]) -> None:
    status, body = post_verify(server_of(StringMatchServer), {**ROW, **fields}, said("a"))

    assert (status, body["error"]["type"]) == (422, "data_error")


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["\\boxed{" * 100_000, "}" * 10**6, "answer " * 10**5, " " * 10**6]
)
def test_no_text_keeps_a_mode_busy(text: str) -> None:
    assert all(
        find(text) is None or isinstance(find(text), ExtractedAnswer) for find in MODES.values()
    )


pieces = st.sampled_from(["\\boxed{", "{", "}", "\\", "answer:", "\n", "a", "$", '"'])


@given(st.lists(pieces).map("".join))
def test_every_text_has_an_answer_or_none(text: str) -> None:
    assert all(isinstance(find(text), ExtractedAnswer | None) for find in MODES.values())

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import agrees, post_verify, recorded, said, server_of, verify

from palestra.resources_servers.mcqa.app import GRAMMARS, McqaServer
from palestra.schema import encode_json
from palestra.transport import call_asgi

OPTIONS = {"A": "Karyotyping", "B": "Southern blotting", "C": "Vitamin C", "D": "7/8"}
ROW = {"options": [{letter: text} for letter, text in OPTIONS.items()], "expected_answer": "B"}


def chosen(mode: str, text: str) -> str | None:
    return GRAMMARS[mode](text, OPTIONS)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"so \boxed{B}", "B"),
        (r"\boxed{A} no, \boxed{ B }", "B"),
        (r"\[\boxed{(B).}\]", "B"),
        (r"\boxed{\boxed{B}}", "B"),
        (r"\boxed{B} and then \boxed{", "B"),
        (r"let f(x) = {x. \boxed{B}", "B"),
        (r"\boxed{b}", None),
        (r"\boxed{E}", None),
        (r"\boxed{AB}", None),
        (r"\boxed{яB}", None),
        (r"\boxed{\text{B}}", None),
        (r"\boxed{B} or rather \boxed{nothing}", None),
        ("B", None),
        ("", None),
    ],
)
def test_the_strict_box_holds_one_capital_letter(text: str, letter: str | None) -> None:
    assert chosen("strict_single_letter_boxed", text) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{b}", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\textbf{(B)}}", "B"),
        (r"$\boxed{\mathrm{ B }}$", "B"),
        (r"\boxed{**B**}", "B"),
        (r"\boxed{Option B}", "B"),
        ("\\boxed{\uff22}", "B"),
        (r"\boxed{B) Southern blotting}", "B"),
        (r"\boxed{B: Southern}", "B"),
        (r"\boxed{southern  BLOTTING.}", "B"),
        (r"\boxed{C. Vitamin C}", "C"),
        (r"\boxed{7/8}", "D"),
        (r"\boxed{B) or C)}", None),
        (r"\boxed{A, B}", None),
        (r"\boxed{Southern}", None),
        (r"\boxed{}", None),
        ("Southern blotting", None),
    ],
)
def test_the_lenient_box_holds_a_letter_or_the_text_of_an_option(
    text: str, letter: str | None
) -> None:
    assert chosen("lenient_boxed", text) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: B", "B"),
        ("Answer: A\nNo.\n**Final answer:** (b)\nBecause of that.", "B"),
        ("The answer is: B.", "B"),
        ("Answer:\nB", "B"),
        ("answer\uff1aB", "B"),
        (r"Answer: $\boxed{B}$ as shown", "B"),
        ("Answer: Southern blotting", "B"),
        ("Answer: A cat", None),
        ("B", None),
        ("Answer:", None),
    ],
)
def test_what_follows_the_last_answer_colon_is_the_answer(text: str, letter: str | None) -> None:
    assert chosen("lenient_answer_colon", text) == letter


CITIES = {"A": "Paris", "B": "Rome", "C": "Oslo"}


@pytest.mark.parametrize(
    "box",
    [
        r"\textbf{(B)}\ Rome",
        r"\textbf{(B) }Rome",
        r"\textbf{(B) Rome}",
        "Option (B)",
        "Choice (B)",
        "B - Rome",
        "(B) - Rome",
        "B (Rome)",
        "B \u2014 Rome",
        r"\rm B",
        r"{\bf B}",
        r"\text{B: Rome it is}",
    ],
)
def test_a_letter_is_read_with_its_text_however_it_is_set(box: str) -> None:
    assert GRAMMARS["lenient_boxed"](f"\\boxed{{{box}}}", CITIES) == "B"


@pytest.mark.parametrize(
    ("texts", "box", "letter"),
    [
        (("<", ">"), "<", "A"),
        (("(1,2)", "[1,2]"), "[1,2]", "B"),
        (("(1,2)", "[1,2]"), "$[1,2]$", "B"),
        (("(1,2)", "(1,2]"), "**A) (1,2]**", None),
        (("(1,2)", "(1,2]"), "A) (1,2)", "A"),
        (("MW", "mW"), "mW", "B"),
        (("MW", "mW"), "A. mW", None),
        (("5", "5!"), "5!", "B"),
        (("5", "5!"), "(A) 5!", None),
        (("5", "5!"), "(A) 5", "A"),
        (("I", "II"), "I", "A"),
        (("B", "A"), "A", "A"),
    ],
)
def test_texts_of_options_that_differ_in_signs_or_letter_case_are_told_apart(
    texts: tuple[str, str], box: str, letter: str | None
) -> None:
    options = dict(zip("AB", texts, strict=True))

    assert GRAMMARS["lenient_boxed"](f"\\boxed{{{box}}}", options) == letter


@pytest.mark.parametrize("line", ["B (Rome)", "B - Rome", "B \u2014 Rome", "**B** - Rome"])
def test_an_answer_line_may_go_on_with_the_options_text(line: str) -> None:
    assert GRAMMARS["lenient_answer_colon"](f"Answer: {line}", CITIES) == "B"


@pytest.mark.parametrize(
    "box",
    [
        "B) Oslo",
        "B) Oslo is it",
        "B) is wrong",
        "B) isn't right",
        "B) not",
        "B - 3",
        "B (Oslo)",
        "f (x)",
        "A - B",
    ],
)
def test_a_letter_that_is_denied_or_given_anothers_text_chooses_nothing(box: str) -> None:
    assert GRAMMARS["lenient_boxed"](f"\\boxed{{{box}}}", CITIES) is None


def test_an_option_may_itself_deny_something() -> None:
    options = {"A": "It is true", "B": "No, it is not", "C": "None"}

    assert GRAMMARS["lenient_boxed"](r"\boxed{B) No, it is not}", options) == "B"
    assert GRAMMARS["lenient_boxed"](r"\boxed{B) it is not}", options) == "B"


def test_options_of_the_same_text_cannot_be_chosen_by_it() -> None:
    assert GRAMMARS["lenient_boxed"](r"\boxed{same}", {"A": "same", "B": "same "}) is None


def test_without_options_any_letter_may_be_chosen() -> None:
    result = verify(server_of(McqaServer), {"expected_answer": "H"}, said(r"\boxed{H}"))

    assert (result["reward"], result["extracted_answer"]) == (1.0, "H")


def test_a_wrong_letter_is_reported_and_worth_nothing() -> None:
    result = verify(server_of(McqaServer), ROW, said(r"\boxed{A}"))

    assert (result["reward"], result["extracted_answer"]) == (0.0, "A")
    assert result["expected_answer"] == "B"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("expected_answer", "Z"),
        ("grading_mode", "lenient"),
        ("template_metadata", {"output_regex": "(unclosed"}),
    ],
)
def test_a_row_that_nobody_could_win_is_the_rows_fault(field: str, value: Any) -> None:
    status, body = post_verify(server_of(McqaServer), {**ROW, field: value}, said("B"))

    assert status == 422
    assert body["error"]["type"] == "data_error"


def test_a_rows_own_regex_replaces_its_grading_mode() -> None:
    row = {**ROW, "template_metadata": {"output_regex": r"<pick>\s*(\w)\s*</pick>"}}

    result = verify(server_of(McqaServer), row, said("<pick>A</pick> no: <pick> b </pick>"))

    assert (result["reward"], result["extracted_answer"]) == (1.0, "B")


@pytest.mark.slow
def test_a_regex_that_finds_nothing_or_a_text_without_letters_is_no_answer() -> None:
    row = {**ROW, "template_metadata": {"output_regex": "final (.*)"}}

    assert verify(server_of(McqaServer), row, said("B"))["extracted_answer"] is None
    assert verify(server_of(McqaServer), row, said("final 😀 word"))["reward"] == 0.0


@pytest.mark.slow
def test_a_regex_that_never_ends_is_stopped_and_is_no_answer() -> None:
    row = {**ROW, "template_metadata": {"output_regex": "(a+)+$"}}

    result = verify(server_of(McqaServer), row, said("a" * 60 + "B"))

    assert (result["reward"], result["extracted_answer"]) == (0.0, None)


@pytest.mark.slow
def test_a_regex_that_never_ends_on_the_rows_own_prompt_is_the_rows_fault() -> None:
    prompt = {
        "input": "Which of the options is the right one? " + "Think about each of them, " * 4 + "!"
    }
    row = {**ROW, "template_metadata": {"output_regex": r"(\w+[\s,]*)+$"}}

    status, body = post_verify(
        server_of(McqaServer), {**row, "responses_create_params": prompt}, said("word " * 30 + "!")
    )

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert "output_regex" in body["error"]["message"]


pieces = st.sampled_from(
    ["\\boxed", "{", "}", "\\text{", "answer", ":", "is", " ", "\n", "B", "b)", "я", "**", "\x00"]
)


@given(text=st.text() | st.lists(pieces).map("".join), mode=st.sampled_from(sorted(GRAMMARS)))
def test_no_text_makes_a_grammar_raise_or_choose_a_letter_that_is_no_option(
    text: str, mode: str
) -> None:
    assert chosen(mode, text) in {None, *OPTIONS}


@pytest.mark.parametrize("mode", sorted(GRAMMARS))
@pytest.mark.parametrize(
    "piece", ["\\boxed{", "{", "}", "answer: ", "answer ", "\\boxed ", "\\text{", "B) ", " ", "\\"]
)
@pytest.mark.timeout(10)
def test_reading_takes_time_in_proportion_to_the_text(mode: str, piece: str) -> None:
    assert chosen(mode, piece * 200_000) is None


def test_metrics_over_attempts_are_in_percent() -> None:
    rows = [
        {"_ng_task_index": 0, "_ng_rollout_index": n, "reward": reward, "extracted_answer": letter}
        for n, (reward, letter) in enumerate([(1.0, "B"), (1.0, "B"), (0.0, None), (0.0, "A")])
    ]
    body = encode_json({"verify_responses": rows})
    app = server_of(McqaServer).asgi_app()

    reply = asyncio.run(call_asgi(app, "POST", "/aggregate_metrics", body=body))

    metrics = orjson.loads(reply.body)
    assert metrics["agent_metrics"]["pass@1/reward"] == 50.0
    assert metrics["key_metrics"]["majority@4/reward"] == 100.0
    assert metrics["key_metrics"]["pass@4/no_answer"] == 100.0


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(McqaServer)

    assert all(agrees(server, row, result) for row, result in recorded("mcqa"))

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from math_verify.parser import parse_latex_cached
from verifying import example_rows, post_verify, recorded, said, verify

from palestra.resources_servers.math_with_judge import (
    names,
    remarks,
    spelling,
    towers,
)
from palestra.resources_servers.math_with_judge.app import MathWithJudgeConfig, MathWithJudgeServer
from palestra.resources_servers.math_with_judge.boxes import find_answers
from palestra.resources_servers.math_with_judge.grading import congruence, grade, same_moment
from palestra.resources_servers.math_with_judge.library import read_answer
from palestra.resources_servers.math_with_judge.units import ends_in_variables
from palestra.sandbox import Crashed, Returned
from palestra.transport import HttpClient, ServerClient


def server_with(**settings: Any) -> MathWithJudgeServer:
    return MathWithJudgeServer(
        config=MathWithJudgeConfig(name="under_test", **settings),
        server_client=ServerClient({}, HttpClient()),
    )


@pytest.fixture(scope="module")
def server() -> Iterator[MathWithJudgeServer]:
    """One for all: its workers import sympy once. One second is enough for what should pass."""
    server = server_with(grading_limit_s=1.0)
    yield server
    asyncio.run(server.stop())


PAIR = re.compile(r"(.+?)  (==|!=)  (.+)")


def table() -> list[tuple[str, bool, str]]:
    lines = Path(__file__).with_name("math_answers.txt").read_text("utf-8").splitlines()
    pairs = [line for line in lines if line and not line.startswith("#")]
    found = [match.groups() for line in pairs if (match := PAIR.fullmatch(line))]
    assert len(found) == len(pairs) > 300
    return [(expected, sign == "==", answer) for expected, sign, answer in found]


@pytest.mark.parametrize(("expected", "same", "answer"), table())
def test_an_answer_is_worth_what_the_table_says(expected: str, same: bool, answer: str) -> None:
    verdict, _ = grade(expected, rf"So the answer is $\boxed{{{answer}}}$.")

    assert (verdict == "correct") is same


@pytest.mark.slow
def test_answers_are_read_as_the_librarys_own_parser_reads_them() -> None:
    answers = {answer for expected, _, written in table() for answer in (expected, written)}
    plain = [item for item in sorted(answers) if not ends_in_variables(item) and "%" not in item]

    for answer in (item for item in plain if not spelling.condition(item)):
        ours, normal = read_answer(answer)
        if ours is not None:
            theirs = parse_latex_cached(normal)
            assert (str(ours), type(ours)) == (str(theirs), type(theirs))


DOCUMENTED = [
    # the examples of math-verify's documentation, as it spells them
    (r"${1,3} \cup {2,4}$", r"${1,2,3,4}$", True),
    (r"$\sqrt{2}$", r"\[ \sqrt{2} \]", True),
    ("1/2", "1/2", True),
    (r"$\beta$", "$β$", True),
    (r"$\frac{1}{3}$", r"$\frac13$", True),
    (r"$\frac{1}{3}$", r"$\frac1{3}$", True),
    ("1", "$x = 1$", True),
    ("0.1", "$10%$", True),
    ("10", r"$10 \text{ cm}$", True),
    ("10", "$10 cm$", True),
    ("0.333", "0.333", True),
    ("$a < 2$", "$2 > a$", True),
    (r"$a \le b$", r"$b \ge a$", True),
    ("$a + b$", "$b + a$", True),
    (r"$\frac{1}{3}$", "0.333333", True),
    ("$1 < x < 2$", "$(1,2)$", True),
    ("$(1,2)$", "$1 < x < 2$", False),
    ("101", "$a+2z = 2z + a = 101$", True),
    ("$a+2z = 2z + a = 101$", "101", False),
    (r"$\frac{1}{2}$", r"The answer is $\frac{1}{2}$", True),
    ("1/2", "The answer is 1/2", True),
    ("1", r"\[ x = 1 \]", True),
    ("1", "$$ x = 1 $$", True),
    ("1", r"\boxed{x = 1}", True),
    ("1", r"\( x = 1 \)", True),
    ("1", " [ x = 1 ] ", True),
    ("$x + 1$", "$y + 1$", False),
    (r"$\frac{2}{3}$", "2/3", True),
    ("9", r"$9\%$", True),
]


@pytest.mark.parametrize(("expected", "text", "same"), DOCUMENTED)
def test_the_librarys_documented_examples_hold(expected: str, text: str, same: bool) -> None:
    verdict, _ = grade(expected, text)

    assert (verdict == "correct") is same


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        (r"\boxed{5}", ("5",)),
        (r"\boxed{4} no, wait. It must be \boxed{ 5 }.", ("5",)),
        (r"\boxed{\boxed{5}}", ("5",)),
        (r"\boxed{x = \boxed{5}}", ("5",)),
        (r"\boxed{\frac{1}{2}}", (r"\frac{1}{2}",)),
        (r"\boxed{\{1, 2\}}", (r"\{1, 2\}",)),
        (r"\boxed{\left\{ 1 \right.}", (r"\left\{ 1 \right.",)),
        (r"\fbox{5}", ("5",)),
        (r"\boxed {5}", ("5",)),
        (r"\boxed{2} and \boxed{3}", ("3", "2, 3")),
        (r"$\boxed{2}$, $\boxed{3}$ or $\boxed{4}$", ("4", "2, 3, 4")),
        (r"\boxed{4}, which is wrong, so \boxed{5}", ("5",)),
        (r"\boxed{5} and \boxed{", ("5",)),
        (r"\boxed{}", ("",)),
        (r"\boxed{5", ()),
        ("5", ()),
    ],
)
def test_the_last_closed_box_counts(text: str, readings: tuple[str, ...]) -> None:
    assert tuple(find_answers(text).readings) == readings


def test_boxes_in_a_row_are_one_answer_too() -> None:
    text = r"The roots are $\boxed{2}$ and $\boxed{3}$."

    assert grade(r"\{2, 3\}", text) == ["correct", "{2, 3}"]
    assert grade("3", text)[0] == "correct"
    assert grade("2", text)[0] == "different"


def test_without_a_box_the_end_of_the_text_is_read() -> None:
    assert grade("7", "First 5. The final answer is 7.") == ["correct", "7"]
    assert grade("5", "First 5. The final answer is 7.")[0] == "different"


@pytest.mark.parametrize(
    "text",
    [
        "The answer is not 9.",
        "I give up. It is surely not 9",
        "After 9 attempts I have no answer, not 9",
        "It cannot be $9$",
        "The answer isn't equal to **9**.",
        "9 is wrong",
        "$9$ is not the right answer",
    ],
)
def test_a_text_that_denies_its_value_has_not_given_it(text: str) -> None:
    assert grade("9", text) == ["different", "9"]


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 9, not 8.",
        "The answer is not 8, but 9.",
        "Since x is not zero, x = 9",
        "The answer is 9. I hope that it is not wrong.",
        "9 is not a prime. The answer is 9.",
        "The answer is 9. It is not 9.5.",
    ],
)
def test_a_text_that_denies_something_else_has_given_its_value(text: str) -> None:
    assert grade("9", text) == ["correct", "9"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("9**9**9**9", "no_answer"),
        ("The answer is 4, or 9 ^ 9 ^ 9 ^ 9", "no_answer"),
        ("It is below 9^{9^{9^9}}. The answer is 4.", "correct"),
        ("The answer is 2^2", "correct"),
        (r"\boxed{2^{2^{2^{0}}}}", "correct"),
        (r"\boxed{(((4^2)^2)^2)^{1/8}}", "correct"),
        ("(9**9)**(9**9)", "no_answer"),
        (r"\boxed{(9^9)^{(9^9)}}", "different"),
        (r"\boxed{x^{9^{9^{9}}}}", "different"),
        (r"\boxed{" + "9^" * 4000 + "9}", "different"),
        (r"\boxed{" + "1^" * 4000 + "1}", "different"),
        (r"\boxed{" + "2^{" * 2400 + "2" + "}" * 2401, "different"),
        (r"\boxed{10^{10^{10}}}", "different"),
        (r"\boxed{(10^9)!}", "different"),
        (r"\boxed{\binom{10^9}{5\cdot10^8}}", "different"),
        (r"\boxed{\int_0^1 x^{x^{x^{x}}} dx}", "different"),
        (r"\boxed{(x+1)^{100000}}", "different"),
    ],
)
def test_a_number_that_is_too_large_is_not_worked_out(text: str, verdict: str) -> None:
    began = time.process_time()

    assert grade("4", text)[0] == verdict
    assert time.process_time() - began < 20


def test_a_number_that_is_too_large_still_equals_itself() -> None:
    assert grade("10^{10^{10}}", r"\boxed{$10^{10^{10}}$}")[0] == "correct"


@pytest.mark.parametrize("text", [r"So it is \boxed{32", r"It is 32: \boxed{", r"32 \boxed{}"])
def test_a_box_that_was_never_closed_or_filled_is_no_answer(text: str) -> None:
    assert grade("32", text) == ["no_answer", None]


@given(st.text() | st.from_regex(r"[\\{}$\[\]()a-z0-9^_=,.%&+*/ -]*(boxed)?[\\{}]*"))
def test_finding_boxes_never_raises_and_finds_what_stands_there(text: str) -> None:
    answers = find_answers(text)

    assert all(part in text for part in answers.readings[:1])


PIECES = (
    *"ABCxy0123456789.,:;'^_{}()[]$ =+-*/!\u00b0\u2032\u20ac%&",
    *(r"\frac", r"\text{", r"\pmod", r"\equiv", r"\overline{", r"\binom", r"\approx", r"\prime"),
    *(" PM", "-03-05", " not ", " or more", "triangle ", "mod", "e8", "\u0663", "\ud800"),
)


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.sampled_from(PIECES)))
def test_what_is_read_beside_the_library_never_raises(one: str, pieces: list[str]) -> None:
    other = "".join(pieces)
    first, second = (spelling.rewritten(spelling.bare(answer)) for answer in (one, other))

    assert names.same_name(first, first) in {None, True}
    assert same_moment(first, first) in {None, True}
    assert names.same_name(first, second) == names.same_name(second, first)
    assert same_moment(first, second) == same_moment(second, first)
    assert not remarks.primed_differently(first, first)
    assert remarks.is_denied("", other) is False
    congruence(first)
    remarks.is_denied("3", other)
    towers.end_of_tower(other)


@pytest.mark.slow
@pytest.mark.parametrize("expected", [" ", "$$", r"\boxed{}"])
def test_a_row_whose_expected_answer_says_nothing_is_a_data_error(
    server: MathWithJudgeServer, expected: str
) -> None:
    status, body = post_verify(server, {"expected_answer": expected}, said(r"\boxed{5}"))

    assert (status, body["error"]["type"]) == (422, "data_error")


@pytest.mark.slow
def test_a_row_whose_expected_answer_cannot_be_graded_in_time_is_a_data_error(
    server: MathWithJudgeServer,
) -> None:
    row = {"expected_answer": "{" * 4000 + "5" + "}" * 4000}

    status, body = post_verify(server, row, said(r"\boxed{5}"))

    assert (status, body["error"]["type"]) == (422, "data_error")


HOSTILE = {
    "tower": (r"\boxed{9^{9^{9^{9}}}}", "different"),
    "plain tower": ("9**9**9**9", "no_answer"),
    "tower of variables": (r"\boxed{(a^9)^9^9^9^9}", "different"),
    "factorials": (r"\boxed{9!!!!!}", "different"),
    "factorials in brackets": (r"\boxed{(((9!)!)!)!}", "different"),
    "nested braces": (r"\boxed{" + "{" * 4000 + "5" + "}" * 4000 + "}", "timed_out"),
    "expanded power": (r"\boxed{(a+b+c+d+f+g+h)^{60} x}", None),
    "fractions in fractions": (r"\boxed{" + r"\frac{1}{1+" * 300 + "1" + "}" * 300 + "}", None),
    "1 MB in the box": (r"\boxed{" + "9" * 10**6 + "}", "too_long"),
    "1 MB of braces": ("{" * 10**6, "no_answer"),
    "1 MB of opened boxes": (r"\boxed{" * 150_000, "no_answer"),
    "1 MB of boxes": (r"\boxed{1}," * 100_000, "different"),
    "1 MB of prose": ("answer " * 140_000, "no_answer"),
    "no text": ("", "no_answer"),
    "zeros": ("\x00" * 100, "no_answer"),
    "code": (r'\boxed{__import__("os").system("true")}', "different"),
    "division by zero": (r"\boxed{\frac{1}{0}}", "different"),
    "not a number": (r"\boxed{\frac{0}{0}}", "different"),
    "a command": (r"\boxed{\input{/etc/passwd}}", "different"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "grading"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_answer_is_worth_nothing_and_the_reason_is_told(
    server: MathWithJudgeServer, text: str, grading: str | None
) -> None:
    result = verify(server, {"expected_answer": r"2^{x}+\sin x"}, said(text))

    assert result["reward"] == result["library_reward"] == 0.0
    assert result["grading"] == grading or (grading is None and result["grading"] != "correct")


def test_an_answer_that_is_no_unicode_is_worth_nothing() -> None:
    assert grade("5", "\\boxed{\ud800}") == ["different", "?"]


def test_after_hostile_answers_an_ordinary_one_is_graded(server: MathWithJudgeServer) -> None:
    verify(server, {"expected_answer": "5"}, said(HOSTILE["tower"][0]))

    result = verify(server, {"expected_answer": "5"}, said(r"\boxed{5}"))

    assert result["reward"] == 1.0


class CrashingOnce:
    """Workers whose first call crashes."""

    def __init__(self) -> None:
        self.outcomes: list[Crashed | Returned] = [Crashed(11), Returned(["correct", "5"])]

    async def call(self, *_: Any, **__: Any) -> Crashed | Returned:
        return self.outcomes.pop(0)


def test_a_crash_that_does_not_happen_again_is_not_the_answers() -> None:
    server = server_with()
    server.__dict__["_workers"] = CrashingOnce()

    assert verify(server, {"expected_answer": "5"}, said(r"\boxed{5}"))["reward"] == 1.0


def test_workers_that_cannot_start_are_no_reward(tmp_path: Path) -> None:
    server = server_with()
    server._workers._keeper._preload[:] = ["no_such_module"]  # type: ignore[attr-defined]

    status, body = post_verify(server, {"expected_answer": "5"}, said(r"\boxed{5}"))
    asyncio.run(server.stop())

    assert (status, body["error"]["type"]) == (500, "verifier_error")
    assert "no_such_module" in body["error"]["message"]


def test_the_reply_reports_what_the_rules_said(server: MathWithJudgeServer) -> None:
    row = {"expected_answer": r"\frac{1}{2}", "question": "?", "uuid": "u"}

    result = verify(server, row, said(r"\boxed{\frac{2}{4}}"))

    assert result["reward"] == result["library_reward"] == 1.0
    assert result["extracted_answer"] == "1/2"
    assert result["judge_evaluations"] is None
    assert result["grading"] == "correct"
    assert result["uuid"] == "u"


def test_a_row_without_an_expected_answer_is_refused(server: MathWithJudgeServer) -> None:
    status, body = post_verify(server, {}, said("5"))

    assert (status, body["error"]["type"]) == (422, "data_error")


@pytest.mark.slow
def test_recorded_rollouts_are_graded_as_they_were(server: MathWithJudgeServer) -> None:
    patient = server_with(grading_limit_s=60.0)
    for row, result in recorded("math_with_judge"):
        ours = verify(patient, row, *result["response"]["output"])

        reported = ("library_reward", "extracted_answer", "expected_answer")
        assert {name: ours[name] for name in reported} == {name: result[name] for name in reported}
    asyncio.run(patient.stop())


def test_the_example_rows_own_answers_are_right(server: MathWithJudgeServer) -> None:
    for row in example_rows("math_with_judge"):
        result = verify(server, row, said(rf"\boxed{{{row['expected_answer']}}}"))

        assert result["reward"] == 1.0


def test_metrics_count_majorities_of_extracted_answers() -> None:
    attempts = [{"reward": 1.0, "extracted_answer": "5"}, {"reward": 0.0, "extracted_answer": "4"}]

    metrics = server_with().compute_metrics([[*attempts, attempts[0]]])

    assert metrics["majority@3/reward"] == 100.0

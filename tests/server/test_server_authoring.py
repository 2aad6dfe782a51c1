"""The smallest environment: a function with its data."""

import asyncio
import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from author_servers import ask, error_of, server_of, turn
from palestra.errors import ConfigError, InputDataError
from palestra.schema import Response
from palestra.server import EnvironmentDefinition, RewardRules, environment, server_class_of
from palestra.transport import HttpReply

DATA = [{"question": "2 + 2 = ?", "expected_answer": "4"}]


@environment(data=DATA, prompt="{question}", system="Answer with a number.")
def sums(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)


def made(prompt: str, *rows: dict[str, Any]) -> Any:
    return environment(data=rows, prompt=prompt)(lambda: 1.0)


def defined(function: Any) -> EnvironmentDefinition:
    return EnvironmentDefinition.of(function)


def verified(made: Any, text: str = "4", **row: Any) -> HttpReply:
    return ask(server_of(server_class_of(defined(made))), "/verify", turn(text, **row))


def test_rows_hold_the_prompt_and_the_data() -> None:
    assert list(defined(sums).rows()) == [
        {
            "responses_create_params": {
                "input": [
                    {"role": "system", "content": "Answer with a number."},
                    {"role": "user", "content": "2 + 2 = ?"},
                ]
            },
            **DATA[0],
        }
    ]


def test_the_function_can_still_be_called() -> None:
    assert defined(sums).name == "sums"
    assert sums(" 4 ", "4") == 1.0
    assert sums(answer="5", expected_answer="4") == 0.0


def test_an_async_function_is_awaited() -> None:
    async def slow(answer: str, expected_answer: str) -> float:
        await asyncio.sleep(0)
        return float(answer == expected_answer)

    env = environment(data=DATA, prompt="{question}")(slow)

    assert orjson.loads(verified(env, "4", expected_answer="4").body)["reward"] == 1.0


def test_an_async_function_behind_a_plain_one_is_awaited() -> None:
    async def slow(answer: str, expected_answer: str) -> float:
        await asyncio.sleep(0)
        return float(answer == expected_answer)

    @functools.wraps(slow)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return slow(*args, **kwargs)

    env = environment(data=DATA, prompt="{question}")(decorated)

    assert orjson.loads(verified(env, "4", expected_answer="4").body)["reward"] == 1.0


def test_a_plain_function_is_called_beside_the_event_loop() -> None:
    called_on: list[threading.Thread] = []

    def told(answer: str) -> float:
        called_on.append(threading.current_thread())
        return float(answer == "4")

    verified(environment(data=DATA, prompt="{question}")(told))

    assert called_on != [threading.main_thread()]


def test_data_may_come_from_a_function_that_yields() -> None:
    env = environment(data=lambda: ({"n": n} for n in range(3)), prompt="{n}")(lambda n: n / 1)

    assert [row["n"] for row in defined(env).rows()] == [0, 1, 2]
    assert len(list(defined(env).rows())) == 3


def test_a_missing_field_of_the_prompt_names_each_row() -> None:
    env = made("{a} and {b}", {"a": 1, "b": 2}, {"a": 1}, {})

    with pytest.raises(InputDataError) as caught:
        list(defined(env).rows())
    for place in ("row 1 of data: no field 'b'", "row 2 of data: no field 'a'"):
        assert place in caught.value.message
    assert "row 0" not in caught.value.message


def test_a_prompt_may_look_inside_a_field_and_format_it() -> None:
    env = made("{who[name]}: {n:03d} {{braces}}", {"who": {"name": "Ada"}, "n": 7})

    [row] = defined(env).rows()
    assert row["responses_create_params"]["input"][0]["content"] == "Ada: 007 {braces}"


@pytest.mark.parametrize("prompt", ['Answer as {"x": 1', "{} + {}", "{0}", "a } b"])
def test_a_prompt_that_cannot_be_filled_says_so(prompt: str) -> None:
    with pytest.raises(InputDataError, match="the prompt of"):
        list(defined(made(prompt, {"x": 1})).rows())


def test_a_misspelt_parameter_is_found_with_the_rows() -> None:
    @environment(data=DATA, prompt="{question}")
    def check(answer: str, expectd_answer: str) -> float:
        return float(answer == expectd_answer)

    says = (
        r"check\(answer, expectd_answer\) asks for 'expectd_answer', which no row has; "
        "did you mean 'expected_answer'"
    )
    with pytest.raises(InputDataError, match=says) as caught:
        list(defined(check).rows())
    assert (
        caught.value.hint
        == "its parameters may be: answer, expected_answer, question, response, task"
    )


def test_a_missing_field_names_the_line_of_its_file_and_the_nearest_field(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"question": "1"}\n\n{"questions": "2"}\n')
    env = environment(data=str(tasks), prompt="{question}")(lambda answer: 1.0)

    with pytest.raises(InputDataError) as caught:
        list(defined(env).rows())
    assert f"line 3 of {tasks}: no field 'question'" in caught.value.message
    assert "did you mean 'questions'?" in caught.value.message


def test_a_field_that_some_row_lacks_is_found_with_that_row() -> None:
    env = environment(data=[*DATA, {"question": "1?"}], prompt="{question}")(sums)

    with pytest.raises(InputDataError, match="'expected_answer', which row 1 of data does not"):
        list(defined(env).rows())


def test_a_function_of_any_fields_or_with_defaults_asks_for_nothing() -> None:
    def loose(answer: str, bonus: float = 0.0, *rest: str, **row: Any) -> float:
        return 1.0

    assert len(list(defined(environment(data=DATA, prompt="{question}")(loose)).rows())) == 1


def test_the_rules_of_its_rewards_are_those_of_its_server() -> None:
    rules = RewardRules(highest=3.0)
    env = environment(data=DATA, prompt="{question}", reward_rules=rules)(lambda: 3.0)

    assert server_of(server_class_of(defined(env))).declared_reward_rules() is rules
    assert server_of(server_class_of(defined(sums))).declared_reward_rules() == RewardRules()


def test_objects_and_lists_of_a_gold_template_are_json() -> None:
    row = {"want": {"a": [True, None]}, "count": 2}
    env = environment(data=[row], prompt="?", gold="{want} {want[a]} {count}")(lambda: 1.0)

    gold = defined(env).gold(row)

    assert gold is not None
    assert gold.output_text == '{"a":[true,null]} [true,null] 2'


@pytest.mark.parametrize(
    ("rules", "limits"),
    [
        (None, (-0.5, 2.5)),
        (RewardRules(wrong=0.5), (-0.5, 2.5)),
        (RewardRules(highest=1.0), (-0.5, 1.0)),
        (RewardRules(lowest=-1.0, highest=2.0), (-1.0, 2.0)),
    ],
)
def test_limits_of_rewards_that_are_not_written_follow_from_the_weights(
    rules: RewardRules | None, limits: tuple[float, float]
) -> None:
    weights = {"right": 2.0, "short": 0.5, "rude": -0.5, "reward": 9.0}
    env = environment(data=DATA, prompt="{question}", weights=weights, reward_rules=rules)(
        lambda: {"right": 1.0}
    )

    declared = server_of(server_class_of(defined(env))).declared_reward_rules()

    assert (declared.lowest, declared.highest) == limits


def test_a_kind_of_wrong_answers_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"`unsure` .* 'changed'") as caught:
        RewardRules(unsure={"changed": "any text is a poem"})
    assert caught.value.hint.startswith("kinds: empty, garbage, echo, truncated, wrong,")


def test_the_reward_is_what_the_function_returns() -> None:
    reply = orjson.loads(verified(sums, "4", expected_answer="4").body)

    assert reply["reward"] == 1.0
    assert reply["extracted_answer"] == "4"
    assert reply["expected_answer"] == "4"


def test_a_function_may_ask_for_the_response_and_for_optional_fields() -> None:
    @environment(data=DATA, prompt="{question}")
    def check(response: Response, bonus: float = 0.25) -> float:
        return len(response.output) + bonus

    assert orjson.loads(verified(check).body)["reward"] == 1.25
    assert orjson.loads(verified(check, bonus=1.0).body)["reward"] == 2.0


def test_a_function_may_take_the_whole_row() -> None:
    @environment(data=DATA, prompt="{question}")
    def check(**row: Any) -> float:
        return float(row.keys() >= {"answer", "response", "expected_answer"})

    assert orjson.loads(verified(check, expected_answer="4").body)["reward"] == 1.0


def test_asking_for_a_field_that_the_row_lacks_says_which_it_has() -> None:
    reply = verified(sums, "4", expected="4")
    error = error_of(reply)

    assert reply.status == 422
    assert error["type"] == "data_error"
    assert error["message"] == "sums asks for expected_answer, which the row does not have"
    assert error["hint"] == "this row has: answer, expected, response, task"


@pytest.mark.parametrize("number", [1, True, 0.5, np.float32(0.5), np.int64(1)])
def test_numbers_of_any_library_are_rewards(number: Any) -> None:
    env = environment(data=DATA, prompt="{question}")(lambda: number)

    assert orjson.loads(verified(env).body)["reward"] == float(number)


@pytest.mark.parametrize("reward", [None, "1.0", float("nan"), np.float64("inf"), [1.0]])
def test_anything_else_is_a_verifier_error_that_shows_it(reward: Any) -> None:
    env = environment(data=DATA, prompt="{question}")(lambda: reward)
    error = error_of(verified(env))

    assert error["type"] == "verifier_error"
    assert "which is not a reward" in error["message"]


def test_an_exception_of_the_function_shows_its_line() -> None:
    @environment(data=DATA, prompt="{question}")
    def check(answer: str) -> float:
        return 1 / len(answer)

    error = error_of(verified(check, ""))

    assert error["message"].endswith("/verify raised ZeroDivisionError: division by zero")
    assert __file__ in error["traceback"]
    assert error["traceback"].endswith(" in check")

"""A flag and an override that give one setting two values: refused, with both of them, before anything
runs.
"""

import pytest
from cli_world import World

FILE = """from palestra import environment


@environment(data=[{"q": "1 + 1 = ?", "a": "2"}], prompt="{q}")
def verify(answer, a):
    return answer == a
"""
LONGER = "++responses_create_params.max_output_tokens=64"


@pytest.mark.parametrize(
    ("flag", "override"),
    [
        (("--max-output-tokens", "4"), LONGER),
        (("--temperature", "0.5"), "++responses_create_params={temperature:0.7}"),
        (("--repeats", "2"), "++num_repeats=3"),
        (("--concurrency", "2"), "~num_samples_in_parallel"),
        (("--model", "vllm:m@http://127.0.0.1:9/v1"), "++policy_base_url=http://127.0.0.1:8/v1"),
    ],
)
def test_eval_refuses_a_flag_and_an_override_that_contradict_each_other(
    world: World, flag: tuple[str, str], override: str
) -> None:
    world.write("sums.py", FILE)

    message = world.run("palestra", "eval", "sums.py", *flag, override).refused()

    assert flag[0] in message
    assert override in message
    assert world.files() == ["sums.py"]


def test_gym_refuses_a_flag_and_an_override_that_contradict_each_other(world: World) -> None:
    message = world.run(
        "gym", "eval", "run", "--output", "r.jsonl", "--max-output-tokens", "4", LONGER
    ).refused()

    assert f"--max-output-tokens and {LONGER} give two values to one setting" in message

"""The author's path: init, test, verify-env, as commands in an empty folder."""

import json

import pytest
from cli_world import World

pytestmark = pytest.mark.slow


def test_what_init_writes_passes_test_and_verify_env_as_it_is(world: World) -> None:
    made = world.run("palestra", "init", "my_env")
    tested = world.run("palestra", "test", "my_env", "--json")
    verified = world.run("palestra", "verify-env", "resources_servers/my_env", "--json")

    assert made.code == 0, made.err
    written = world.folder / "resources_servers" / "my_env" / "app.py"
    assert "    def verify(" in written.read_text()  # in a worker, which can be killed
    assert tested.code == 0, tested.out
    assert json.loads(tested.out)[0]["passed"] is True
    assert verified.code == 0, verified.out
    assert json.loads(verified.out)["passed"] is True


def test_ng_commands_do_the_same(world: World) -> None:
    made = world.run("ng_init_resources_server", "+entrypoint=resources_servers/my_env")
    tested = world.run("ng_test", "+entrypoint=resources_servers/my_env")

    assert (made.code, tested.code) == (0, 0), made.err + tested.out
    assert "  ng_test +entrypoint=resources_servers/my_env" in made.out.splitlines()


def test_a_folder_without_its_key_is_answered_with_the_line_to_type(world: World) -> None:
    assert (
        "ng_test +entrypoint=resources_servers/my_env"
        in world.run("ng_test", "resources_servers/my_env").refused()
    )


def test_missing_metrics_name_the_command_that_writes_them(world: World) -> None:
    entrypoint = "+entrypoint=resources_servers/my_env"
    world.run("ng_init_resources_server", entrypoint)
    (world.folder / "resources_servers/my_env/data/example_metrics.json").unlink(missing_ok=True)

    tested = world.run("ng_test", entrypoint, "+should_validate_data=true")

    assert tested.code == 1
    assert "`ng_prepare_data` writes it" in tested.out


def test_a_folder_that_is_there_is_left_as_it_is(world: World) -> None:
    (world.folder / "resources_servers" / "my_env").mkdir(parents=True)
    before = world.files()

    refused = world.run("palestra", "init", "my_env").refused()

    assert "exists already" in refused
    assert world.files() == before


@pytest.mark.parametrize("target", ["my_env", "resources_servers/my_env"])
def test_an_environment_that_lacks_its_config_says_so_and_how_to_make_it(
    world: World, target: str
) -> None:
    world.run("palestra", "init", "my_env")
    config = world.folder / "resources_servers" / "my_env" / "configs" / "my_env.yaml"
    written = config.read_text()
    config.unlink()

    refused = world.run("palestra", "eval", target).refused()
    made = world.run(*refused.split("hint: ")[1].strip().split())

    assert "resources_servers/my_env/configs/my_env.yaml is missing" in refused
    assert made.code == 0, made.err
    assert config.read_text() == written


def test_a_config_that_is_there_is_left_as_it_is(world: World) -> None:
    world.run("palestra", "init", "my_env")
    before = world.files()

    refused = world.run("palestra", "init", "my_env", "--config-only").refused()

    assert "exists already" in refused
    assert world.files() == before


def test_the_tests_of_an_environment_run_from_inside_of_its_folder(world: World) -> None:
    world.run("palestra", "init", "my_env")

    done = world.run("palestra", "test", "my_env", "--json", within="resources_servers/my_env")

    assert done.code == 0, done.out + done.err


@pytest.mark.parametrize("name", ["My-Env", "1env", "elsewhere/my_env"])
def test_a_name_that_cannot_be_one_is_refused_and_nothing_is_written(
    world: World, name: str
) -> None:
    before = world.files()

    world.run("palestra", "init", name).refused()

    assert world.files() == before


def test_what_is_wrong_with_a_folder_is_told(world: World) -> None:
    world.run("palestra", "init", "my_env")
    data = world.folder / "resources_servers" / "my_env" / "data"
    rows = (data / "example.jsonl").read_text().splitlines(keepends=True)
    (data / "example.jsonl").write_text("".join(rows[:4]))
    (data / "example_rollouts.jsonl").unlink()

    done = world.run("palestra", "test", "my_env")

    assert done.code == 1
    assert "has 4 rows, and must have 5" in done.out
    assert "is missing" in done.out
    assert "Number of examples: 5 is stored, 4 was found" in done.out


def test_record_makes_the_examples_anew(world: World) -> None:
    world.run("palestra", "init", "my_env")
    data = world.folder / "resources_servers" / "my_env" / "data"
    rows = (data / "example.jsonl").read_text().replace("17 + 25", "30 + 12")
    (data / "example.jsonl").write_text(rows)

    done = world.run("palestra", "test", "my_env", "--record")

    assert done.code == 0, done.out + done.err
    assert "30 + 12" in (data / "example_rollouts.jsonl").read_text()
    assert "row 0: reward 1, from the declared right answer" in done.err


def test_a_verifier_that_rewards_everything_does_not_pass(world: World) -> None:
    world.write(
        "easy.py",
        "from palestra import environment\n\n"
        "@environment(data=[{'question': '1 + 1?', 'expected_answer': '2'}], prompt='{question}')\n"
        "def verify(answer: str, expected_answer: str) -> float:\n"
        "    return float(expected_answer in answer)\n",
    )

    done = world.run("palestra", "verify-env", "easy.py")

    assert done.code == 1
    assert "wrong answer gets at most 0" in done.out
    assert "does not pass: wrong" in done.err


def test_an_environment_in_one_file_passes(world: World) -> None:
    world.write(
        "strict.py",
        "from palestra import environment\n\n"
        "@environment(data=[{'question': '1 + 1?', 'expected_answer': '2'}], prompt='{question}')\n"
        "def verify(answer: str, expected_answer: str) -> float:\n"
        "    return float(expected_answer == answer.strip())\n",
    )

    done = world.run("palestra", "verify-env", "strict.py")

    assert done.code == 0, done.out


def test_an_environment_that_does_not_exist_is_refused(world: World) -> None:
    refused = world.run("palestra", "verify-env", "mcqq").refused()

    assert "did you mean 'mcqa'" in refused


def test_recorded_rollouts_without_their_rows_do_not_pass(world: World) -> None:
    world.run("palestra", "init", "my_env")
    data = world.folder / "resources_servers" / "my_env" / "data"
    (data / "example.jsonl").unlink()

    tested = world.run("palestra", "test", "my_env")
    refused = world.run("palestra", "verify-env", "resources_servers/my_env")

    assert tested.code == 1
    assert "example.jsonl, whose rows they must be of, is missing" in tested.out
    assert refused.code in {1, 2}


def test_cases_of_rows_that_are_not_there_name_the_file_that_is_missing(world: World) -> None:
    world.run("palestra", "init", "my_env")
    data = world.folder / "resources_servers" / "my_env" / "data"
    (data / "example.jsonl").unlink()
    (data / "verifier_cases.jsonl").write_text('{"row": 0, "answer": "4", "reward": 1.0}\n')

    refused = world.run("palestra", "verify-env", "resources_servers/my_env").refused()

    assert "data/example.jsonl does not exist" in refused


LARGE_COMPONENT = """
from palestra import Environment, RewardRules
class Sums(Environment):
    data = [{"q": "1 + 1", "a": "2"}, {"q": "1 + 2", "a": "3"}]
    prompt = "{q}"
    gold = "{a}"
    weights = {"right": 0.5, "size": 0.5}
    reward_rules = RewardRules(RULES)
    def verify(self, answer, a):
        return {"right": answer == a, "size": 3.0 * (answer == a)}
"""


@pytest.mark.parametrize(("rules", "passes"), [("", False), ("highest=2.0", True)])
def test_a_component_above_one_needs_rules_of_rewards(
    world: World, rules: str, passes: bool
) -> None:
    world.write("sums.py", LARGE_COMPONENT.replace("RULES", rules))
    done = world.run("palestra", "verify-env", "sums.py")

    assert (done.code == 0) is passes, done.out
    assert ("got 2, which is not from 0 to 1" in done.out) is not passes


@pytest.mark.parametrize("command", ["test", "init --from", "init shop --from"])
def test_a_misspelt_file_is_answered_with_the_nearest(world: World, command: str) -> None:
    world.write("slow.py", "")

    refused = world.run("palestra", *command.split(), "slwo.py").refused()

    assert "did you mean slow.py?" in refused

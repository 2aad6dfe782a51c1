"""Keys of config files that are very similar to keys with a meaning."""

import math
from pathlib import Path

import pytest
from config_world import FLEET, POLICY, World

from palestra.config import OverrideRules, is_one_slip
from palestra.errors import ConfigError, KnownCause

MODEL = "policy_model: {responses_api_models: {my_model: {KEY: x}}}"


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("policy_base_ulr: http://127.0.0.1:8000/v1", "policy_base_ulr", "policy_base_url"),
        ("head_servr: {port: 1}", "head_servr", "head_server"),
        (
            MODEL.replace("KEY", "datasetz"),
            "policy_model.responses_api_models.my_model.datasetz",
            "datasets",
        ),
        ("mine: {_inherits_from: policy_model}", "mine._inherits_from", "_inherit_from"),
        (
            f"{MODEL}\nmine: {{_inherits_from: policy_model, responses_api_models: {{}}}}",
            "mine._inherits_from",
            "_inherit_from",
        ),
        (
            MODEL.replace("KEY", "_copi"),
            "policy_model.responses_api_models.my_model._copi",
            "_copy",
        ),
        ("mine: {inner: {_delete_keys: [a]}}", "mine.inner._delete_keys", "_delete_key"),
    ],
)
def test_a_slip_in_a_file_is_refused_with_the_key_that_it_resembles(
    world: World, text: str, key: str, near: str
) -> None:
    world.write("a.yaml", text)

    with pytest.raises(ConfigError) as caught:
        world.load(config_paths=["a.yaml"], need_folders=False)

    (problem,) = caught.value.problems
    assert (problem.key, problem.cause) == (key, KnownCause.MISSPELT_SETTING)
    assert "a.yaml" in problem.message
    assert f"{near!r}" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "policy_base_urls: []",
        "policy_base_url_2: x",
        "policy_api_key_env: KEY",
        "mine: 1",
        "mine: {_copy_2: x, _copies: 3, _default: 1}",
        "policy_base_ulr: x\nagain: ${policy_base_ulr}",
        MODEL.replace("KEY", "dataset"),
        MODEL.replace("KEY", "other"),
        f"{MODEL.replace('KEY', 'domian')}\nx: ${{policy_model.responses_api_models.my_model.domian}}",
    ],
)
def test_a_key_of_the_users_own_is_accepted(world: World, text: str) -> None:
    world.write("a.yaml", text)

    world.load(config_paths=["a.yaml"], need_folders=False)


def test_a_key_that_the_code_of_its_server_has_is_accepted(world: World) -> None:
    world.write("responses_api_models/my_model/app.py", "class Config:\n    entry_point: str\n")
    world.write("a.yaml", MODEL.replace("KEY", "entry_point"))

    world.load(config_paths=["a.yaml"], need_folders=False)


@pytest.mark.parametrize(
    ("line", "correction"),
    [
        (
            "policy_model.responses_api_models.my_model.KEY: 1",
            "policy_model: {responses_api_models: {my_model: {KEY: <value>}}}",
        ),
        (
            "mine.resources_servers.mine.bonus: 1",
            "mine: {resources_servers: {mine: {bonus: <value>}}}",
        ),
        ("head_server.port: 1", "head_server: {port: <value>}"),
    ],
)
def test_dots_in_a_key_of_env_yaml_are_refused_with_the_nested_line(
    world: World, line: str, correction: str
) -> None:
    world.write("env.yaml", line)

    with pytest.raises(ConfigError) as caught:
        world.load_text(MODEL, need_folders=False)

    (problem,) = caught.value.problems
    assert (problem.key, problem.hint) == (line.partition(":")[0], f"write {correction}")
    assert "env.yaml" in problem.message


@pytest.mark.parametrize("line", ["my.note: 1", "policy_model.: 1", ".5: half"])
def test_dots_in_a_key_of_the_users_own_are_accepted(world: World, line: str) -> None:
    world.write("env.yaml", line)

    world.load_text(MODEL, need_folders=False)


INSTANCE = "capitals: {resources_servers: {capitals: {strict: false}}}\n"
BELOW = "resources_servers.capitals.strict=true"


@pytest.mark.parametrize(
    ("override", "near"),
    [
        (f"++capital.{BELOW}", "capitals"),
        ("++capital={resources_servers: {capitals: {}}}", "capitals"),
        ("+num_repeat=2", "num_repeats"),
        ("+agent_nam=a", "agent_name"),
        ("+policy_base_ulr=http://h/v1", "policy_base_url"),
        ("++mine._inherits_from=capitals", "_inherit_from"),
    ],
)
def test_a_slip_in_the_first_key_or_a_directive_of_an_override_is_refused(
    world: World, override: str, near: str
) -> None:
    rules = OverrideRules(known=("num_repeats", "agent_name"))

    with pytest.raises(ConfigError) as caught:
        world.load_text(INSTANCE, override, need_folders=False, rules=rules)

    (problem,) = caught.value.problems
    assert problem.cause == KnownCause.MISSPELT_SETTING
    assert problem.key == override.lstrip("+").partition("=")[0]
    assert f"{near!r}" in problem.message


@pytest.mark.parametrize(
    "overrides",
    [
        (f"++capitals_2.{BELOW}",),
        (f"++judge.{BELOW}",),
        ("++capital._copy=capitals",),
        (f"++capital.{BELOW}", "++seen=${capital.resources_servers.capitals.strict}"),
        ("+num_repeat=2", "+policy_api_key=${num_repeat}"),
        ("+mine=1",),
    ],
)
def test_an_override_of_the_users_own_is_accepted(world: World, overrides: list[str]) -> None:
    rules = OverrideRules(known=("num_repeats",))

    world.load_text(INSTANCE, *overrides, need_folders=False, rules=rules)


def test_a_slip_of_a_commands_setting_in_a_file_is_refused(world: World) -> None:
    rules = OverrideRules(known=("num_samples_in_parallel",))

    with pytest.raises(ConfigError, match="'num_samples_in_parallel'"):
        world.load_text("num_sampls_in_parallel: 3", rules=rules)


@pytest.mark.parametrize(
    ("word", "near", "least_replaced", "is_slip"),
    [
        ("corect", "correct", 4, True),
        ("corrrect", "correct", 4, True),
        ("toosl", "tools", 9, True),
        ("toolz", "tools", 4, True),
        ("toolz", "tools", math.inf, False),
        ("f1_micro", "f1_macro", math.inf, False),
        ("top_a", "top_n", 4, False),
        ("max_tokems", "max_tokens", 4, True),
        ("tool", "model", 4, False),
    ],
)
def test_one_letter_makes_a_slip(
    word: str, near: str, least_replaced: float, is_slip: bool
) -> None:
    assert is_one_slip(word, near, least_replaced=least_replaced) is is_slip


def test_a_value_in_place_of_a_server_is_refused_with_its_line_and_the_setting(
    world: World,
) -> None:
    world.write("env.yaml", "policy_base_url: u\npolicy_model: good\n")

    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET)

    [problem] = caught.value.problems
    assert (Path(problem.file).name, problem.line) == ("env.yaml", 2)
    assert "did you mean 'policy_model_name'?" in problem.message
    assert problem.hint == "write policy_model_name: <value>"


def test_an_override_in_place_of_a_server_is_refused(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET, "++policy_model=good", *POLICY)

    assert caught.value.hint == "write ++policy_model_name=<value>"


def test_null_takes_a_server_away(world: World) -> None:
    world.write("env.yaml", "spare: null\n")
    spare = "spare: {resources_servers: {mcqa: {domain: other}}}\n"

    assert "spare" not in world.load_text(FLEET + spare, *POLICY).instances

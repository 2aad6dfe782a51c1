"""Interpolation, and the one list of everything that has no value."""

import pytest
from config_world import FLEET, POLICY, World

from palestra.config.resolve import resolve
from palestra.errors import ConfigError, KnownCause


def test_interpolations_become_plain_values() -> None:
    resolved = resolve({"a": {"b": [1, {"c": 2}]}, "x": "${a.b}", "y": "n=${a.b.1.c}", 3: "${y}"})

    assert resolved["x"] == [1, {"c": 2}]
    assert type(resolved["x"]) is list
    assert type(resolved["x"][1]) is dict
    assert (resolved["y"], resolved[3]) == ("n=2", "n=2")


def test_environment_variables_are_read_through_oc_env(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_TEST_PORT", "8000")

    resolved = resolve(
        {"a": "${oc.env:PALESTRA_TEST_PORT}", "b": "${oc.decode:${oc.env:PALESTRA_TEST_PORT}}"}
    )

    assert resolved == {"a": "8000", "b": 8000}


def test_an_escaped_interpolation_stays_as_text() -> None:
    assert resolve({"a": "cost \\${x}"}) == {"a": "cost ${x}"}


def test_everything_without_a_value_is_listed_at_once() -> None:
    tree = {
        "a": "???",
        "b": {"c": "${nope}", "d": "${..a}", "e": "x${.gone}/${lost.key}"},
        "l": ["${nope}"],
        "env": "${oc.env:PALESTRA_NOT_SET}",
        "fine": "${fine2}",
        "fine2": 1,
    }

    with pytest.raises(ConfigError) as caught:
        resolve(tree)

    assert caught.value.message.splitlines() == [
        "7 settings have no value:",
        "  a has no value: ++a=<value>",
        "  b.c needs nope: ++nope=<value>",
        "  b.d needs a: ++a=<value>",
        "  b.e needs b.gone: ++b.gone=<value>",
        "  b.e needs lost.key: ++lost.key=<value>",
        "  l.0 needs nope: ++nope=<value>",
        "  env needs the environment variable PALESTRA_NOT_SET: export PALESTRA_NOT_SET=…",
    ]


def test_a_missing_policy_key_says_where_it_is_needed_and_how_to_give_it(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET)

    needs = "policy_model.responses_api_models.openai_model.openai_api_key needs policy_api_key"
    assert needs in caught.value.message
    assert "++policy_api_key=<value>" in caught.value.message
    assert "env.yaml" in caught.value.hint


def test_a_chain_of_interpolations_names_the_key_at_its_end() -> None:
    with pytest.raises(ConfigError, match=r"a needs c\.d"):
        resolve({"a": "${b}", "b": "${c.d}"})


def test_settings_without_a_value_are_empty_when_not_all_are_required(world: World) -> None:
    config = world.load_text(FLEET + "x: ???\n", require_all=False)

    assert config.tree["x"] == ""
    assert config.instance("policy_model").settings["openai_api_key"] == ""


def test_an_empty_port_counts_as_none_given(world: World) -> None:
    text = "m: {resources_servers: {mcqa: {port: '${p}', num_workers: '???'}}}"

    assert world.load_text(text, require_all=False).instance("m").port is None


@pytest.mark.parametrize(
    "tree",
    [
        {"a": "${b}", "b": "${a}"},
        {"a": {"b": "${a}"}},
        {"a": {"b": "${c}"}, "c": {"d": "${a}"}},
    ],
)
def test_a_circle_of_interpolations_is_an_error_even_when_values_may_lack(tree: dict) -> None:
    with pytest.raises(ConfigError, match="a"):
        resolve(tree, require_all=False)


def test_an_unknown_resolver_is_an_error() -> None:
    with pytest.raises(ConfigError, match="b: Unsupported interpolation type nope"):
        resolve({"b": "${nope:1}"})


@pytest.mark.parametrize("name", ["oc.evn", "env", "OC.ENV"])
def test_an_unknown_resolver_is_answered_with_the_nearest(name: str) -> None:
    with pytest.raises(ConfigError, match=f"b: .* type {name}; did you mean 'oc.env'"):
        resolve({"b": f"${{{name}:HOME}}"})


@pytest.mark.parametrize(
    ("text", "advice"),
    [("${oc.env:}", "write ${oc.env:VARIABLE}"), ("x ${oc.decode:}", "write ${oc.decode:EXPR}")],
)
def test_a_resolver_without_its_argument_is_shown_with_one(text: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"b": text})

    assert advice in caught.value.message


@pytest.mark.parametrize("text", ["${", "a ${b", "${}"])
def test_a_malformed_interpolation_is_an_error_that_does_not_repeat_it(text: str) -> None:
    with pytest.raises(ConfigError, match="api_key: malformed") as caught:
        resolve({"m": {"api_key": f"sk-abc{text}"}})
    assert "sk-abc" not in caught.value.message


def test_resolving_leaves_the_tree_as_it_was() -> None:
    tree = {"a": "${x}/${y}", "b": [1]}

    resolved = resolve(tree, require_all=False)
    resolved["b"].append(2)

    assert tree == {"a": "${x}/${y}", "b": [1]}


def test_the_whole_tree_is_plain_python(world: World) -> None:
    config = world.load_text(FLEET, *POLICY)

    def kinds(value: object) -> set[type]:
        if isinstance(value, dict):
            return {dict}.union(*map(kinds, value.values()))
        if isinstance(value, list):
            return {list}.union(*map(kinds, value))
        return {type(value)}

    assert kinds(config.tree) == {dict, list, str}


def test_only_what_is_required_must_have_a_value() -> None:
    tree = {"used": {"a": "${lost}"}, "used_not": {"b": "${lost}", "c": "???"}, "lost": "???"}

    assert resolve(tree, required=())["used_not"] == {"b": "", "c": ""}
    with pytest.raises(ConfigError) as caught:
        resolve(tree, required=("used",))

    assert caught.value.message.splitlines() == [
        "1 setting has no value:",
        "  used.a needs lost: ++lost=<value>",
    ]


def test_an_empty_policy_setting_counts_as_missing_and_is_named() -> None:
    tree = {"m": {"url": "${policy_base_url}", "other": "${mine}"}, "policy_base_url": None}

    with pytest.raises(ConfigError) as caught:
        resolve({**tree, "mine": None})

    (problem,) = caught.value.problems
    assert (problem.key, problem.cause) == ("m.url", KnownCause.MISSING_VALUE)
    assert "policy_base_url, which is empty" in problem.message


def test_the_suggested_line_of_env_yaml_gives_the_setting(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET, *POLICY, "++mcqa.resources_servers.mcqa.bonus=???")
    line = caught.value.hint.partition("as a line of env.yaml, ")[2]
    world.write("env.yaml", line.replace("<value>", "0.5"))

    config = world.load_text(FLEET.replace("knowledge", "knowledge\n      bonus: ???"), *POLICY)

    assert config.instances["mcqa"].settings["bonus"] == 0.5


def test_a_part_of_a_list_is_no_line_of_env_yaml() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"a": {"b": [{"c": "???"}]}})

    assert caught.value.hint == "give each on the command line, ++a.b.0.c=<value>"


def note_of(world: World) -> str:
    """The beginning of the hint about settings without a value."""
    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET)
    return caught.value.hint.partition("; give")[0]


def test_a_missing_setting_says_that_there_is_no_env_yaml(world: World) -> None:
    assert note_of(world) == f"there is no env.yaml in {world.cwd.resolve()}"


def test_a_missing_setting_names_a_file_that_is_most_likely_meant_to_be_env_yaml(
    world: World,
) -> None:
    world.write("env.yml", "policy_base_url: u\n")

    assert note_of(world) == "env.yml is not read: rename it to env.yaml"


def test_a_missing_setting_names_the_env_yaml_of_a_folder_above(world: World) -> None:
    above = world.write("../env.yaml", "policy_base_url: u\n").resolve()

    assert note_of(world) == f"{above} is not read: run the command in that folder"


def test_a_missing_setting_says_nothing_of_an_env_yaml_that_was_read(world: World) -> None:
    world.write("env.yaml", "policy_base_url: u\n")

    assert note_of(world).startswith("give each on the command line")


def test_a_setting_without_a_value_names_the_key_that_was_probably_meant() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"m": {"name": "${policy_model_name}"}, "policy_modelname": "tiny", "x": 1})

    assert caught.value.hint.startswith("policy_modelname is given: write policy_model_name;")

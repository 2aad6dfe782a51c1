"""Command-line overrides: Hydra's grammar, applied to a plain tree."""

import pytest
from config_world import World
from hypothesis import given
from hypothesis import strategies as st

from palestra.config import OverrideAction, OverrideRules, apply_overrides, parse_overrides
from palestra.errors import ConfigError, KnownCause


def applied(tree: dict, *overrides: str, strict_add: bool = False) -> dict:
    return apply_overrides(tree, parse_overrides(overrides), strict_add=strict_add)


@pytest.mark.parametrize("prefix", ["", "+", "++"])
def test_every_way_to_set_a_key_overrides_an_existing_one(prefix: str) -> None:
    assert applied({"a": {"b": 1}}, f"{prefix}a.b=2") == {"a": {"b": 2}}


def test_a_dotted_key_makes_the_mappings_on_its_way() -> None:
    assert applied({}, "+a.b.c=1", "++a.d=x") == {"a": {"b": {"c": 1}, "d": "x"}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=1e-3", 0.001),
        ("a=true", True),
        ("a=null", None),
        ("a=", ""),
        ("a=http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("a=[x.yaml,dir/y.yaml]", ["x.yaml", "dir/y.yaml"]),
        ("a={b:1,c:[2,{d:e}]}", {"b": 1, "c": [2, {"d": "e"}]}),
        ("a='p, q = r'", "p, q = r"),
        ('a="say \\"hi\\""', 'say "hi"'),
        ("a=${b.c}", "${b.c}"),
        ("a=${oc.env:HOME}", "${oc.env:HOME}"),
        ("a=Zurich is nice", "Zurich is nice"),
    ],
)
def test_values_are_read_as_hydra_reads_them(text: str, value: object) -> None:
    assert applied({}, text) == {"a": value}


def test_a_value_that_is_a_mapping_merges_and_a_list_replaces() -> None:
    tree = {"m": {"x": 1}, "l": [1, 2]}

    assert applied(tree, "m={y:2}", "l=[3]") == {"m": {"x": 1, "y": 2}, "l": [3]}


def test_an_index_reaches_into_a_list() -> None:
    tree = {"datasets": [{"n": 1}, {"n": 2}]}

    assert applied(tree, "++datasets.1.n=5") == {"datasets": [{"n": 1}, {"n": 5}]}
    with pytest.raises(ConfigError, match="the list has no item 7"):
        applied(tree, "++datasets.7.n=5")


def test_a_step_finds_a_numeric_key() -> None:
    assert applied({"m": {1: "a"}}, "m.1=b") == {"m": {1: "b"}}


def test_a_tilde_deletes_a_key() -> None:
    assert applied({"a": {"b": 1, "c": 2}, "d": 3}, "~a.b", "~d") == {"a": {"c": 2}}


def test_a_tilde_with_a_value_deletes_only_that_value() -> None:
    assert applied({"a": 1, "b": 2}, "~a=1") == {"b": 2}
    with pytest.raises(ConfigError, match="only if its value is the one after ="):
        applied({"a": 1}, "~a=2")


def test_deleting_an_absent_key_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"~a\.temprature .* did you mean 'temperature'"):
        applied({"a": {"temperature": 1}}, "~a.temprature")


def test_changing_a_new_key_adds_it_unless_additions_are_strict() -> None:
    assert applied({}, "new=1") == {"new": 1}
    with pytest.raises(ConfigError, match=r"to add it, write \+new=") as caught:
        applied({"old": 1}, "old=2", "new=1", strict_add=True)
    assert "old" not in caught.value.message
    assert "+new=" in caught.value.hint  # it resembles no key, so there is nothing to correct


def test_a_new_key_that_resembles_another_is_explained_as_misspelt() -> None:
    with pytest.raises(ConfigError, match="num_repeats") as caught:
        applied({"num_repeats": 1}, "num_repeat=2", strict_add=True)

    assert caught.value.hint == ""


def test_strict_additions_hold_for_config_paths_too(world: World) -> None:
    world.write("a.yaml", "")
    with pytest.raises(ConfigError, match=r"\+config_paths="):
        world.load("config_paths=[a.yaml]", rules=OverrideRules(strict_add=True))


@pytest.mark.parametrize("first", ["+", "", "++"])
def test_a_key_that_is_added_twice_is_refused(first: str) -> None:
    with pytest.raises(ConfigError, match=r"\+num_repeats is there twice"):
        parse_overrides([f"{first}num_repeats=4", "+limit=1", "+num_repeats=6"])


@pytest.mark.parametrize(
    "texts",
    [
        ("+a=1", "++a=2"),
        ("+a=1", "+a=1"),
        ("+a=1", "~a", "+a=2"),
        ("+a={b: 1}", "+a={c: 2}"),
        ("+config_paths=[a.yaml]", "+config_paths=[b.yaml]"),
    ],
)
def test_overrides_of_one_key_that_lose_nothing_are_accepted(texts: tuple[str, ...]) -> None:
    assert len(parse_overrides(texts)) == len(texts)


def test_all_overrides_that_cannot_be_parsed_are_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["a=[", "good=1", "no_equals", "b=x,y", "g/roup=1"])

    message = caught.value.message
    assert message.startswith("4 problems")
    for part in ("'a=['", "no_equals=<value>", "b=[x,y]", "'g/roup'"):
        assert part in message
    assert "good" not in message


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("+config_paths=a.yaml,b.yaml", "write a list: '+config_paths=[a.yaml,b.yaml]'"),
        ("config_paths=a.yaml,b.yaml", "write a list: '+config_paths=[a.yaml,b.yaml]'"),
        ("++tags=a,b", """write a list: '++tags=[a,b]', or one text: '++tags="a,b"'"""),
    ],
)
def test_values_with_commas_are_shown_as_the_list_to_type(text: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides([text])

    assert caught.value.message.endswith(advice)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["--max-steps=3"], "+max_steps=3"),
        (["--max-steps", "3"], "+max_steps=3"),
        (["--max-steps"], "+max_steps=<value>"),
        (["--max-steps", "+limit=2"], "+max_steps=<value>"),
        (["+", "max_steps=3"], "+max_steps=3"),
        (["++", "max_steps=3"], "++max_steps=3"),
        (["+max_steps", "=", "3"], "+max_steps=3"),
        (["+max_steps", "=3", "+limit=2"], "+max_steps=3"),
        (["+max_steps=", "3", "+limit=2"], "+max_steps=3"),
        (["resources_servers/mcqa"], "<key>=resources_servers/mcqa"),
    ],
)
def test_words_that_are_no_override_are_one_problem_with_the_override(
    words: list[str], written: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(words)

    assert len(caught.value.problems) == 1
    assert caught.value.message.endswith(written)


@pytest.mark.parametrize(
    "words",
    [
        ["--policy-api-key", "sk-of-mine"],
        ["+policy_api_key", "=", "sk-of-mine"],
        ["+policy_api_key=", "sk-of-mine"],
    ],
)
def test_the_value_of_a_flag_with_a_secret_is_not_repeated(words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(words)

    assert "sk-of-mine" not in caught.value.message


def test_a_bracket_that_is_not_closed_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'\[' has no '\]'"):
        parse_overrides(["+config_paths=[a.yaml,b.yaml"])


@pytest.mark.parametrize(
    ("override", "near"),
    [("envy.resources_servers.env.value=1", "env"), ("env.resources_servers.env.prt=1", "port")],
)
def test_a_changed_key_is_compared_at_the_step_that_is_missing(override: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        applied({"env": {"resources_servers": {"env": {}}}}, override, strict_add=True)

    assert caught.value.message.endswith(f"did you mean {near!r}?")


def test_a_value_with_an_equals_sign_is_an_error_that_says_to_quote_it() -> None:
    with pytest.raises(ConfigError, match="needs quotes"):
        parse_overrides(["+url=http://x/v1?a=b"])


def test_a_setting_as_the_value_of_a_mapping_is_shown_below_it() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["+responses_create_params=temperature=1"])

    assert "is +responses_create_params.temperature=1; " in caught.value.message


@pytest.mark.parametrize(
    "text", ["+api_key=sk-abc,123", "+a.api_key=[sk-abc", "+api_key=sk-abc=", "+a=api_key=sk-abc"]
)
def test_errors_about_an_override_do_not_show_a_secret(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides([text])
    assert "sk-abc" not in caught.value.message + caught.value.hint


def test_the_repr_of_an_override_does_not_show_its_value() -> None:
    (override,) = parse_overrides(["++api_key=sk-abc"])

    assert (override.action, override.key, override.value) == (
        OverrideAction.FORCE_ADD,
        "api_key",
        "sk-abc",
    )
    assert "sk-abc" not in repr(override)


def test_hydras_own_settings_are_ignored_with_a_warning(world: World) -> None:
    config = world.load(
        "hydra.run.dir=/tmp/x", "hydra/job_logging=none", rules=OverrideRules(strict_add=True)
    )

    assert config.tree == {}
    assert len(config.warnings) == 2


def test_an_unknown_top_level_override_is_a_warning_with_the_nearest_name(world: World) -> None:
    config = world.load(
        "+polcy_name=x", "+limit=3", "+policy_api_key=k", rules=OverrideRules(known=["limit"])
    )

    (warning,) = config.warnings
    assert "polcy_name" in warning
    assert "'policy_model_name'" in warning


@pytest.mark.parametrize("name", ["wandb_name", "wandb_project", "upload_rollouts_to_wandb"])
def test_a_setting_of_the_field_without_effect_is_a_warning_that_says_why(
    world: World, name: str
) -> None:
    config = world.load(f"+{name}=x", rules=OverrideRules(known=["agent_name"]))

    (warning,) = config.warnings
    assert warning.startswith(f"override {name!r} has no effect here: Palestra uploads no rollouts")


def test_an_override_by_another_name_of_a_setting_is_an_error(world: World) -> None:
    rules = OverrideRules(known=["go_on"], aliases={"resume": "go_on"})

    with pytest.raises(ConfigError) as caught:
        world.load("+resume=true", rules=rules)

    assert caught.value.cause == KnownCause.MISSPELT_SETTING
    assert "+go_on=" in caught.value.hint


def test_an_override_that_an_interpolation_or_directive_refers_to_is_not_unknown(
    world: World,
) -> None:
    text = "a: ${mine}\nb: {_copy: block}\nc: '${oc.select:picked,1}'\nin_file: 1"

    config = world.load_text(text, "+mine=1", "+block.x=1", "+picked=2", "+in_file=2")

    assert config.warnings == ()


_NAMES = st.from_regex(r"[a-z_][a-z0-9_\-]{0,5}", fullmatch=True)
_VALUES = st.recursive(
    st.integers(-999, 999) | st.booleans() | st.none() | st.text("abc ,=:'\"${}[]\\ü", max_size=8),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            _NAMES.filter(lambda n: n not in {"null", "true", "false", "nan", "inf"}),
            below,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def _hydra_text(value: object) -> str:
    """`value` in Hydra's grammar, as the grammar's documentation has it."""
    if isinstance(value, str):
        # Backslashes count only before a quote, the closing one included.
        doubled = value
        if "\\" in value:
            head = value.rstrip("\\")
            doubled = _escape_before_quotes(head) + "\\" * (2 * (len(value) - len(head)))
        else:
            doubled = value.replace("'", "\\'")
        return f"'{doubled}'"
    if isinstance(value, list):
        return f"[{','.join(map(_hydra_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_hydra_text(v)}" for k, v in value.items()) + "}"
    return (
        {True: "true", False: "false", None: "null"}.get(value, str(value))
        if (value is None or isinstance(value, bool))
        else str(value)
    )


def _escape_before_quotes(text: str) -> str:
    out, run = "", 0
    for char in text:
        if char == "\\":
            run += 1
            continue
        out += "\\" * (2 * run + 1 if char == "'" else run) + char
        run = 0
    return out


@pytest.mark.slow
@given(st.lists(_NAMES, min_size=1, max_size=3), _VALUES)
def test_a_written_value_is_read_and_set_at_its_path(path: list[str], value: object) -> None:
    tree: object = applied({}, f"++{'.'.join(path)}={_hydra_text(value)}")

    for step in path:
        assert isinstance(tree, dict)
        tree = tree[step]
    assert tree == value

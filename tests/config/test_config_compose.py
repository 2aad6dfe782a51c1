"""The composition directives: move, copy, delete."""

import pytest
from config_world import World

from palestra.config.compose import compose
from palestra.errors import ConfigError


@pytest.mark.parametrize(
    "target", [{"_inherit_from": "base"}, "${inherit_from:base}", "${ inherit_from: base }"]
)
def test_inherit_from_moves_the_block(target: object) -> None:
    composed = compose({"base": {"x": 1}, "mine": target}).tree

    assert composed == {"mine": {"x": 1}}


@pytest.mark.parametrize("target", [{"_copy": "base"}, "${copy:base}"])
def test_copy_leaves_the_block_where_it_was(target: object) -> None:
    composed = compose({"base": {"x": [1]}, "mine": target}).tree

    assert composed == {"base": {"x": [1]}, "mine": {"x": [1]}}
    assert composed["base"]["x"] is not composed["mine"]["x"]


def test_siblings_override_what_is_inherited_key_by_key() -> None:
    composed = compose(
        {
            "base": {"m": {"x": 1, "y": 1}, "l": [1, 2], "z": 1},
            "mine": {"m": {"y": 2}, "_copy": "base", "l": [3]},
        }
    ).tree

    assert composed["mine"] == {"m": {"x": 1, "y": 2}, "l": [3], "z": 1}


@pytest.mark.parametrize("names", ["b, c", ["b", "c"]])
def test_delete_key_removes_keys(names: object) -> None:
    composed = compose(
        {"base": {"a": 1, "b": 2, "c": 3}, "mine": {"_inherit_from": "base", "_delete_key": names}}
    )

    assert composed.tree == {"mine": {"a": 1}}
    assert composed.warnings == ()


def test_delete_key_works_without_inheritance_and_at_the_top() -> None:
    composed = compose({"_delete_key": "a", "a": 1, "b": {"_delete_key": "c", "c": 1, "d": 2}}).tree

    assert composed == {"b": {"d": 2}}


def test_deleting_a_key_that_is_not_there_is_a_warning_with_the_nearest() -> None:
    warnings = compose({"mine": {"_delete_key": "temprature", "temperature": 1}}).warnings

    assert "mine._delete_key" in warnings[0]
    assert "'temperature'" in warnings[0]


def test_directives_work_at_any_depth_and_in_lists() -> None:
    composed = compose(
        {"base": {"deep": [{"x": 1}]}, "l": [{"_copy": "base.deep.0", "y": 2}, "${copy:base.deep}"]}
    ).tree

    assert composed["l"] == [{"x": 1, "y": 2}, [{"x": 1}]]


def test_a_source_may_itself_inherit_and_order_does_not_matter() -> None:
    composed = compose(
        {
            "c": {"_inherit_from": "b", "z": 3},
            "b": {"_inherit_from": "a", "y": 2},
            "a": {"x": 1},
        }
    ).tree

    assert composed == {"c": {"x": 1, "y": 2, "z": 3}}


def test_a_path_may_lead_through_a_block_that_inherits() -> None:
    composed = compose({"a": {"m": {"x": 1}}, "b": "${copy:a}", "c": "${copy:b.m.x}"}).tree

    assert composed["c"] == 1


def test_two_blocks_may_inherit_from_one_source() -> None:
    composed = compose({"a": {"x": 1}, "b": "${inherit_from:a}", "c": "${inherit_from:a}"}).tree

    assert composed == {"b": {"x": 1}, "c": {"x": 1}}


def test_a_parent_that_a_move_empties_goes_too() -> None:
    composed = compose({"a": {"m": {"x": 1}}, "b": "${inherit_from:a.m}", "e": {}}).tree

    assert composed == {"b": {"x": 1}, "e": {}}


@pytest.mark.parametrize(
    "tree",
    [
        {"a": "${copy:a}"},
        {"a": "${copy:b}", "b": "${copy:a}"},
        {"a": {"b": "${inherit_from:a}"}},
        {"a": {"_copy": "b.c"}, "b": {"_copy": "a"}},
    ],
)
def test_a_circle_is_an_error(tree: dict) -> None:
    with pytest.raises(ConfigError, match="in a circle"):
        compose(tree)


def test_a_missing_source_is_an_error_with_place_and_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"mine\._copy: there is no bse.* did you mean 'base'"):
        compose({"base": {}, "mine": {"_copy": "bse"}})


@pytest.mark.parametrize(
    ("mine", "problem"),
    [
        ({"_copy": "x", "_inherit_from": "x"}, "both"),
        ({"_copy": ["x"]}, r"mine\._copy must be the dotted path"),
        ({"_copy": "x", "beside": 1}, "not a mapping"),
        ({"_delete_key": 3}, "must be a list of keys"),
    ],
)
def test_a_directive_that_makes_no_sense_is_an_error(mine: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compose({"x": 1, "mine": mine})


def test_directives_see_all_sources_and_overrides(world: World) -> None:
    world.write("base.yaml", "base: {x: 1, y: 1}")
    world.write("mine.yaml", "mine: ${inherit_from:base}")

    tree = world.load("++mine.z=3", "++base.y=2", config_paths=["base.yaml", "mine.yaml"]).tree

    assert tree["mine"] == {"x": 1, "y": 2, "z": 3}
    assert "base" not in tree


def test_interpolations_are_resolved_after_composition(world: World) -> None:
    tree = world.load_text("base: {x: 1, y: '${.x}'}\nmine: {_copy: base, x: 2}").tree

    assert (tree["base"]["y"], tree["mine"]["y"]) == (1, 2)


def test_an_instance_can_be_made_from_another(world: World) -> None:
    config = world.load_text(
        "template: {resources_servers: {mcqa: {domain: math, port: 12000}}}\n"
        "mine: {_inherit_from: template, resources_servers: {mcqa: {port: 12001}}}"
    )

    assert list(config.instances) == ["mine"]
    assert (config.instance("mine").domain, config.instance("mine").port) == ("math", 12001)

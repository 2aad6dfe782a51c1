"""Which files are read, in which order, and what is said about those that cannot be."""

import pytest
from config_world import World
from hypothesis import given
from hypothesis import strategies as st

from palestra.config import resolve_path
from palestra.config.tree import merge
from palestra.doctor import hint_for
from palestra.errors import ConfigError


def test_a_later_file_overrides_an_earlier_one(world: World) -> None:
    world.write("a.yaml", "x: 1\ny: {p: 1, q: 1}")
    world.write("b.yaml", "x: 2\ny: {q: 2}")

    tree = world.load(config_paths=["a.yaml", "b.yaml"]).tree

    assert (tree["x"], tree["y"]) == (2, {"p": 1, "q": 2})


def test_an_including_file_overrides_what_it_includes(world: World) -> None:
    world.write("top.yaml", "config_paths: [base.yaml, second.yaml]\nx: top")
    world.write("base.yaml", "x: base\ny: base\nz: base")
    world.write("second.yaml", "y: second")

    tree = world.load(config_paths=["top.yaml"]).tree

    assert (tree["x"], tree["y"], tree["z"]) == ("top", "second", "base")


def test_sources_lists_the_files_read_from_lowest_to_highest_precedence(world: World) -> None:
    top = world.write("top.yaml", "config_paths: [base.yaml]")
    base = world.write("base.yaml", "")
    env = world.write("env.yaml", "")

    assert world.load(config_paths=["top.yaml"]).sources == (base, top, env)


def test_env_yaml_extra_and_overrides_each_override_the_one_before(world: World) -> None:
    world.write("a.yaml", "p: file\nq: file\nr: file\ns: file")
    world.write("env.yaml", "q: env\nr: env\ns: env")

    tree = world.load("+s=cli", config_paths=["a.yaml"], extra={"r": "extra", "s": "extra"}).tree

    assert [tree[key] for key in "pqrs"] == ["file", "env", "extra", "cli"]


def test_env_yaml_is_taken_from_the_package_only_when_the_working_directory_has_none(
    world: World,
) -> None:
    world.write("env.yaml", "x: package", package=True)
    assert world.load().tree["x"] == "package"

    world.write("env.yaml", "x: cwd")
    assert world.load().tree["x"] == "cwd"
    assert "x" not in world.load(use_env_yaml=False).tree


def test_config_paths_of_env_yaml_are_read_before_those_of_the_command_line(world: World) -> None:
    world.write("env.yaml", "config_paths: [mine.yaml]\ny: env")
    world.write("mine.yaml", "x: mine\ny: mine\nz: mine")
    world.write("a.yaml", "x: asked")

    tree = world.load("+config_paths=[a.yaml]").tree

    assert (tree["x"], tree["y"], tree["z"]) == ("asked", "env", "mine")


def test_config_paths_in_an_override_are_loaded(world: World) -> None:
    world.write("a.yaml", "x: 1")
    world.write("b.yaml", "x: 2")

    config = world.load("+config_paths=[a.yaml,b.yaml]")

    assert config.tree["x"] == 2
    assert config.tree["config_paths"] == ["a.yaml", "b.yaml"]
    assert config.warnings == ()


def test_a_relative_path_means_the_working_directory_before_the_package(world: World) -> None:
    world.write("both.yaml", "x: package", package=True)
    world.write("both.yaml", "x: cwd")
    world.write("one.yaml", "y: package", package=True)

    tree = world.load(config_paths=["both.yaml", "one.yaml"]).tree

    assert (tree["x"], tree["y"]) == ("cwd", "package")


def test_a_file_listed_twice_counts_once_and_is_reported(world: World) -> None:
    world.write("a.yaml", "x: 1")

    config = world.load(config_paths=["a.yaml", "./a.yaml"])

    assert len(config.sources) == 1
    assert "./a.yaml" in config.warnings[0]
    assert "already read" in config.warnings[0]


def test_files_that_include_each_other_are_each_read_once(world: World) -> None:
    world.write("a.yaml", "config_paths: [b.yaml]\nx: a")
    world.write("b.yaml", "config_paths: [a.yaml]\nx: b")

    config = world.load(config_paths=["a.yaml"])

    assert config.tree["x"] == "a"
    assert len(config.warnings) == 1


def test_a_missing_file_is_an_error_with_every_place_and_the_nearest_name(world: World) -> None:
    world.write("resources_servers/mcqa/configs/mcqa.yaml", "", package=True)

    with pytest.raises(ConfigError) as caught:
        world.load(config_paths=["resources_servers/mcq/configs/mcqa.yml"])

    for root in (world.cwd, world.package):
        assert str(root / "resources_servers/mcq/configs/mcqa.yml") in caught.value.message
    assert "resources_servers/mcqa/configs/mcqa.yaml" in caught.value.hint


def test_a_missing_included_file_names_the_file_that_includes_it(world: World) -> None:
    with pytest.raises(ConfigError, match=r"included by .*config\.yaml"):
        world.load_text("config_paths: [nothing_like_it.yaml]")


def test_a_syntax_error_gives_file_line_column_and_the_line(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text("a: 1\nb: c: d\n")

    assert "config.yaml, line 2, column 5" in caught.value.message
    assert "b: c: d" in caught.value.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n  entrypoint:app.py\n  domain: agent\n", 2),
        ("a:\n  b: 1\n  entrypoint:app.py\n\n# more\nc: 1\n", 3),
        ("entrypoint:app.py\n", 1),
    ],
)
def test_a_colon_without_a_blank_is_named_with_its_own_line(
    world: World, text: str, line: int
) -> None:
    with pytest.raises(ConfigError, match="a blank after the colon is missing") as caught:
        world.load_text(text)

    assert f"config.yaml, line {line}, column " in caught.value.message
    assert caught.value.hint == "write entrypoint: app.py"
    assert [problem.line for problem in caught.value.problems] == [line]


def test_a_url_is_no_colon_without_a_blank(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text("http://here\nb: 1\n")

    assert "a blank after the colon" not in caught.value.message


def test_a_syntax_error_is_not_put_down_to_environments_of_one_file(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text("b: c: d\n")

    assert hint_for(caught.value) == "fix the line that is quoted"


def test_an_empty_config_file_is_a_warning(world: World) -> None:
    path = world.write("a.yaml", "# nothing yet\n")

    loaded = world.load(config_paths=["a.yaml"])

    assert loaded.warnings == (f"{path} is empty: it configures nothing",)


def test_a_syntax_error_in_the_line_of_a_secret_does_not_show_it(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text('openai_api_key: sk-abc: "1\n')

    assert "sk-abc" not in caught.value.message
    assert "openai_api_key: ****" in caught.value.message


@pytest.mark.parametrize(
    ("text", "line", "quoted_lines"),
    [
        ("a http://here\nb: scripted\n", 2, "a http://here\n    b: scripted"),
        ("a: 1\n# more\n\nb scripted\n", 4, "a: 1\n    b scripted"),
        ("a:\n  b:\n    c: d\n     e: f\n", 4, "    c: d\n         e: f"),
        ("a: 1\nb: [1,\n", 2, "a: 1\n    b: [1,"),
    ],
)
def test_a_syntax_error_quotes_the_line_before_too_as_both_are_indented(
    world: World, text: str, line: int, quoted_lines: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text)

    assert caught.value.message.endswith(f"\n    {quoted_lines}")
    assert caught.value.hint == "fix this line or the one before"
    assert [problem.line for problem in caught.value.problems] == [line]


@pytest.mark.parametrize(
    "text",
    [
        "a_api_key sk-abcdef\nb: 1\n",
        "a_api_key:\n  sk-abcdef\n b: 1\n",
        'a_api_key: "x\n  sk-abcdef\nb: 1\n',
        "a_api_key: |\n  sk-abcdef\n b: 1\n",
        "- a_api_key sk-abcdef\nb: 1\n",
    ],
)
def test_a_line_that_is_quoted_for_the_next_one_does_not_show_its_secret(
    world: World, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text)

    assert "****" in caught.value.message
    assert "sk-abcdef" not in caught.value.message


def test_a_key_given_twice_with_one_value_is_a_warning(world: World) -> None:
    path = world.write("a.yaml", "a:\n  b: {x: [1, y]}\n  c: 1\n  b:\n    x: [1, 'y']\n")

    loaded = world.load(config_paths=["a.yaml"])

    assert loaded.tree["a"] == {"b": {"x": [1, "y"]}, "c": 1}
    (warning,) = loaded.warnings
    assert warning.startswith(f"{path}, line 4: key 'b' is given twice with one value")


def test_a_key_given_twice_is_an_error_with_both_lines(world: World) -> None:
    with pytest.raises(ConfigError, match=r"line 3, .*'b' .* different values, first in line 2"):
        world.load_text("a:\n  b: 1\n  b: 2\n")


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.csv", "tasks.jsonl.gz"])
def test_a_file_of_rows_is_no_config(world: World, name: str) -> None:
    world.write(name, '{"question": "2 + 2 = ?"}')

    with pytest.raises(ConfigError, match="is a file of rows") as caught:
        world.load(config_paths=[name])
    assert "--input" in caught.value.hint


@pytest.mark.parametrize(("text", "kind"), [("[1, 2]", "list"), ("hello", "str"), ("3", "int")])
def test_a_config_that_is_not_a_mapping_is_an_error(world: World, text: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"holds a {kind}, not a mapping"):
        world.load_text(text)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n", "\ufeff"])
def test_an_empty_file_is_an_empty_mapping(world: World, text: str) -> None:
    assert world.load_text(text).tree == {"config_paths": ["config.yaml"]}


def test_anchors_merge_keys_unicode_and_numeric_keys_are_read(world: World) -> None:
    tree = world.load_text(
        "base: &b {x: 1, y: 1}\nother: {<<: *b, y: 2}\nname: Zürich 日本\n1: one\nm: {2: two}\n"
    ).tree

    assert tree["other"] == {"x": 1, "y": 2}
    assert (tree["name"], tree[1], tree["m"]) == ("Zürich 日本", "one", {2: "two"})  # type: ignore[index]


def test_exponents_are_numbers_and_dates_stay_text_as_in_omegaconf(world: World) -> None:
    tree = world.load_text("lr: 1e-3\nday: 2026-01-02\n").tree

    assert (tree["lr"], tree["day"]) == (0.001, "2026-01-02")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a {b: *a}", "contains itself"),
        ("a: !!set {x}", "is a set"),
        ("? null\n: 1", "keys are strings"),
        ("a: !!python/name:os.system", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "another document"),
    ],
)
def test_yaml_that_is_no_config_is_an_error(world: World, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        world.load_text(text)


def test_a_file_that_is_not_utf8_is_an_error(world: World) -> None:
    (world.cwd / "config.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        world.load(config_paths=["config.yaml"])


@pytest.mark.parametrize("text", ["config_paths: 3", "config_paths: [1]", "config_paths: {a: b}"])
def test_config_paths_that_are_no_paths_are_an_error(world: World, text: str) -> None:
    with pytest.raises(ConfigError, match="config_paths must be a list of paths"):
        world.load_text(text)


def test_resolve_path_falls_back_to_the_working_directory_for_new_files(world: World) -> None:
    there = world.write("data/a.jsonl", "", package=True)

    assert resolve_path("data/a.jsonl", world.cwd, world.package) == there
    assert resolve_path("out.jsonl", world.cwd, world.package) == world.cwd / "out.jsonl"
    assert resolve_path("/abs/out.jsonl", world.cwd, world.package).is_absolute()


_KEYS = st.sampled_from("abc")
_TREES = st.dictionaries(
    _KEYS,
    st.recursive(
        st.integers() | st.none() | st.lists(st.integers(), max_size=2),
        lambda below: st.dictionaries(_KEYS, below, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def _paths(tree: object, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    """The reference: a tree as a table of leaves; an empty mapping is a leaf."""
    if not isinstance(tree, dict) or (not tree and at):
        return {at: tree}
    return {path: leaf for key in tree for path, leaf in _paths(tree[key], (*at, key)).items()}


@given(st.lists(_TREES, max_size=4))
def test_merging_equals_writing_leaves_one_after_the_other(trees: list[dict]) -> None:
    merged: dict = {}
    for tree in trees:
        merged = merge(merged, tree)

    table: dict[tuple[str, ...], object] = {}
    for tree in trees:
        for path, leaf in _paths(tree).items():
            below = [p for p in table if p[: len(path)] == path]
            above = [path[:n] for n in range(1, len(path))]
            if leaf == {} and below and table.get(path, {}) == {}:
                continue  # an empty mapping adds nothing to a mapping
            for old in (*below, *above):
                table.pop(old, None)
            table[path] = leaf
    assert _paths(merged) == table

"""The query language: its trees, its errors, and what it selects in a table and in transcripts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from indexed_runs import indexed, keys

from palestra.analysis import (
    BetweenTerm,
    ComparedTerm,
    ContainsTerm,
    HasTerm,
    QueryError,
    WordTerm,
    matches_query,
    parse_query,
)
from palestra.viewer.index import IndexSnapshot
from palestra.viewer.pages.terms import term
from palestra.viewer.query import TextHit, search_text
from profiled_runs import Run, failed, materialized, scored

PIECES = st.sampled_from(
    [
        "(",
        ")",
        "-",
        "not",
        "and",
        "or",
        '"',
        '"a b"',
        "reward<1",
        "task:0..9",
        "has:x",
        "~",
        "sort:x",
        "text:y",
        "a,b",
        "x:~z",
        "x!=1",
        "x<=",
        ":",
        "..",
        "1e5",
        "é",
        " ",
    ]
)
SHORT = st.text("aAäÄß\\/\t😀1", min_size=1, max_size=4)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map(" ".join))


@given(TEXTS)
def test_any_text_is_a_query_or_has_an_error_at_a_position(text: str) -> None:
    try:
        query = parse_query(text)
    except QueryError as error:
        position = error.position
    else:
        position = query.sort_position or 1
    assert 1 <= position <= len(text) + 1


@given(TEXTS, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3) | st.text(max_size=3)))
def test_every_query_decides_any_row(text: str, row: dict[str, Any]) -> None:
    try:
        query = parse_query(text)
    except QueryError:
        return

    assert matches_query(query, lambda name: [row[name]] if name in row else []) in {True, False}


def test_terms_keep_their_positions_and_values() -> None:
    leaves = list(parse_query('task:0..9 reward>=1 -"so be it" text:word').leaves())

    assert leaves[0] == BetweenTerm("task", 1, 0.0, 9.0)
    assert leaves[1] == ComparedTerm("reward", 11, ">=", "1", 1.0)
    assert leaves[2:] == [WordTerm("so be it"), WordTerm("word", whole_transcript=True)]


def test_a_field_in_quotes_is_a_name_of_the_row_whatever_its_signs() -> None:
    leaves = list(parse_query('"judge score">0.5 "a/b":~x "has":y has:"the field"').leaves())

    assert leaves[0] == ComparedTerm("judge score", 1, ">", "0.5", 0.5)
    assert leaves[1] == ContainsTerm("a/b", 19, "x")
    assert leaves[2] == ComparedTerm("has", 28, "=", "y", None)
    assert leaves[3] == HasTerm("the field", 36)


TEXTS = st.text(st.characters(exclude_characters='"', exclude_categories=("C", "Z")), min_size=1)


@example("sort", "x")
@example("text", "x")
@given(TEXTS, TEXTS)
def test_the_term_of_any_field_and_text_selects_them(field: str, value: str) -> None:
    [leaf] = parse_query(term(field, value)).leaves()

    assert isinstance(leaf, ComparedTerm)
    assert (leaf.field, leaf.text) == (field, value)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("reward<x", 8),
        ("a or", 5),
        ("(a", 3),
        ("a)", 2),
        ("-sort:x", 2),
        ('a ""', 3),
        ('text:""', 1),
        ("x:~", 1),
        ("a and or b", 7),
        ('a "', 3),
        ("reward<", 8),
        ("task:1 (reward>= or a)", 17),
        ("a outcome:", 11),
        ("reward >= 1", 8),
        ("reward >=1", 8),
        ("a reward = 1", 10),
        ("reward==", 9),
    ],
)
def test_an_error_names_the_character(text: str, position: int) -> None:
    with pytest.raises(QueryError) as raised:
        parse_query(text)

    assert raised.value.position == position


def test_two_equals_signs_are_one() -> None:
    assert list(parse_query("reward==1").leaves()) == [ComparedTerm("reward", 1, "=", "1", 1.0)]


def test_an_operator_is_a_word_in_quotes_or_before_a_word() -> None:
    leaves = list(parse_query('a ">=" b <think> -> c').leaves())

    assert [leaf.text for leaf in leaves if isinstance(leaf, WordTerm)] == [
        *("a", ">=", "b", "<think>", "->", "c")
    ]


def test_a_range_of_numbers_has_dots(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1.0, part="0-3"), scored(1, 0, 0.0, part="4-7")]
    output = Run.write(tmp_path, rows).paths.output

    with indexed(output, tmp_path / "cache") as snapshot:
        with pytest.raises(QueryError) as raised:
            keys(snapshot, "part:0-3 task:0-3")
        assert keys(snapshot, "part:0-3") == [(0, 0)]
    assert raised.value.position == 10
    assert "task:0..3" in raised.value.hint


def test_a_word_is_an_index_only_where_tasks_have_names(tmp_path: Path) -> None:
    for name in ("numbers", "names"):
        (tmp_path / name).mkdir()
    with_numbers = Run.write(tmp_path / "numbers", [scored(0, 0, 1.0)]).paths.output
    with_names = Run.write(tmp_path / "names", [scored("a", 0, 1.0)]).paths.output

    with indexed(with_numbers, tmp_path / "cache") as snapshot, pytest.raises(QueryError) as raised:
        keys(snapshot, "task:a")
    with indexed(with_names, tmp_path / "cache") as snapshot:
        assert keys(snapshot, "task:a") == [("a", 0)]
        assert keys(snapshot, "task:b") == []
    assert raised.value.position == 1


def test_a_component_without_its_prefix_is_named_with_it(tmp_path: Path) -> None:
    row = scored(0, 0, 1.0, reward_components={"correct": 1.0})
    output = Run.write(tmp_path, [row]).paths.output

    with indexed(output, tmp_path / "cache") as snapshot, pytest.raises(QueryError) as raised:
        keys(snapshot, "correct:1")
    assert raised.value.nearest == "reward_components.correct"


def test_long_and_deep_queries_are_refused() -> None:
    with pytest.raises(QueryError):
        parse_query("a " * 1_001)
    with pytest.raises(QueryError):
        parse_query("(" * 33 + "a" + ")" * 33)
    assert parse_query("(" * 32 + "a" + ")" * 32).tree == WordTerm("a")
    assert parse_query("not " * 499 + "a").tree is not None


def test_an_unknown_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(QueryError) as raised:
        parse_query("task:1 rewrd<1").check_fields(["task", "reward"])

    assert (raised.value.position, raised.value.nearest) == (8, "reward")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x:1", True),
        ("-x:1", False),
        ("y:1", False),
        ("-y:1", False),
        ("-has:y", True),
        ("y:1 or x:1", True),
        ("-(y:1 x:1)", False),
        ("-(y:1 x:2)", True),
        ("name:ABC", True),
        ("name:~b", True),
        ("name!=abd", True),
        ("x<2", True),
        ("name<2", False),
        ("x:2,1", True),
    ],
)
def test_a_field_that_a_row_lacks_matches_only_minus_has(text: str, expected: bool) -> None:
    row = {"x": [1], "name": ["abc"]}

    assert matches_query(parse_query(text), lambda name: row.get(name, [])) is expected


# Over an index


def response(*texts: str, tool: str = "") -> dict[str, Any]:
    call = {"type": "function_call", "name": tool, "call_id": "c", "arguments": "{}"}
    messages = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        for text in texts
    ]
    return {
        "output": [*([call] if tool else []), *messages],
        "usage": {"output_tokens": len(texts)},
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    rows = [
        scored(
            0,
            0,
            1.0,
            response=response("first", "The Answer", tool="search"),
            kind="easy",
            n=1234567,
            **{"judge score": 0.3},
        ),
        scored(0, 1, 0.0, response=response('Ünïcode "quoted"\nline', tool="look"), ok=True),
        scored(1, 0, 0.5, response=response("role of n"), kind="Hard"),
    ]
    inputs = [materialized(task, rollout) for task in range(2) for rollout in range(2)]
    folder = tmp_path / "run"
    folder.mkdir()
    return Run.write(folder, rows, inputs=inputs, failures=[failed(1, 1, "timeout")])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("reward>=0.5", [(0, 0), (1, 0)]),
        ("-reward>=0.5", [(0, 1)]),
        ("outcome:timeout", [(1, 1)]),
        ("class:TIMEOUT", [(1, 1)]),
        ("kind:hard", [(1, 0)]),
        ("kind!=hard", [(0, 0)]),
        ("kind:~a", [(0, 0), (1, 0)]),
        ("n:~34567", [(0, 0)]),
        ('"judge score">0.2', [(0, 0)]),
        ('-has:"judge score"', [(0, 1), (1, 0), (1, 1)]),
        ("ok:true", [(0, 1)]),
        ("tools:search", [(0, 0)]),
        ("tools:sear", []),
        ("has:tools", [(0, 0), (0, 1)]),
        ("answer", [(0, 0)]),
        ("ÜNÏCODE", [(0, 1)]),
        ("first", []),
        ("tokens.out:2 or task:1 rollout:1", [(0, 0), (1, 1)]),
        ("sort:-reward", [(0, 0), (1, 0), (0, 1), (1, 1)]),
        ("sort:kind", [(0, 0), (1, 0), (0, 1), (1, 1)]),
    ],
)
def test_a_query_selects_rollouts(
    run: Run, tmp_path: Path, query: str, expected: list[Any]
) -> None:
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        assert keys(snapshot, query) == expected


def hits(snapshot: IndexSnapshot, text: str) -> list[TextHit]:
    query = parse_query(text)
    found = search_text(snapshot, query, snapshot.rollouts.select(query))
    return [hit for hit in found if isinstance(hit, TextHit)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("text:FIRST", [(0, 0)]),
        ("text:ünïCODE", [(0, 1)]),
        ('text:"quoted"', [(0, 1)]),
        ("text:output_text", []),
        ("text:role", [(1, 0)]),
        ('text:"question 1"', [(1, 0), (1, 1)]),
        ("-text:first reward>=0", [(0, 1), (1, 0)]),
        ("text=first", [(0, 0)]),
        ("text=FIRST", []),
        ("text=Ünïcode", [(0, 1)]),
        ("text=ünïcode", []),
        ('text="question 1"', [(1, 0), (1, 1)]),
        ("-text=The reward>=0", [(0, 1), (1, 0)]),
        ("text:first or reward:0", [(0, 0), (0, 1)]),
    ],
)
def test_whole_transcripts_are_searched(
    run: Run, tmp_path: Path, query: str, expected: list[Any]
) -> None:
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        assert [snapshot.key(hit.row) for hit in hits(snapshot, query)] == expected


@pytest.mark.parametrize("escapes", [True, False])
@settings(max_examples=25, deadline=None)
@given(st.lists(SHORT, min_size=1, max_size=6), SHORT.filter(lambda text: '"' not in text))
def test_exact_hits_are_those_without_case_that_have_the_case(
    tmp_path_factory: pytest.TempPathFactory, escapes: bool, texts: list[str], sought: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    rows = [scored(0, at, 1.0, response=response(text)) for at, text in enumerate(texts)]
    output = Run.write(folder, [], inputs=[]).paths.output
    output.write_text("".join(f"{json.dumps(row, ensure_ascii=escapes)}\n" for row in rows))

    with indexed(output, folder / "cache") as snapshot:
        folded = [snapshot.key(hit.row) for hit in hits(snapshot, f'text:"{sought}"')]
        exact = [snapshot.key(hit.row) for hit in hits(snapshot, f'text="{sought}"')]

    assert exact == [key for key in folded if key is not None and sought in texts[key[1]]]
    assert len(exact) == sum(sought in text for text in texts)


def test_a_hit_names_the_item_and_shows_the_text_around(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        [hit] = hits(snapshot, "text:answer")

    assert (hit.item, hit.excerpt) == (2, "The Answer")


def test_tasks_are_selected_by_their_statistics(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        tasks = snapshot.tasks

        assert tasks.select("pass_rate:0.1..0.9 solved:sometimes").tolist() == [0]
        assert tasks.page(tasks.select("sort:-task"), fields=["task", "n", "mean"]).rows == [
            {"task": 1, "n": 2, "mean": 0.5},
            {"task": 0, "n": 2, "mean": 0.5},
        ]

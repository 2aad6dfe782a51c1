"""From files of rows to what a trainer reads."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preparations import dataset, prepare, read_rows, row, write_rows

from palestra.datasets import BadRows, RowEndpoint, tokenizer_at
from palestra.errors import ConfigError, InputDataError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(" a  b "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(["answer", "level", "agent_ref", "é", "tags"]), JSON)
LINE = st.builds(
    lambda prompt, fields, style: style.format(json.dumps(row(prompt, **fields))),
    st.text(),
    FIELDS,
    st.sampled_from(["{}", "{}", "  {} ", "{}\r", "\n{}", "{}\n   "]),
)
DATASET = st.tuples(
    st.lists(LINE, min_size=1, max_size=8),
    st.integers(1, 3),
    st.integers(0, 9) | st.none(),
    st.integers(0, 9) | st.none(),
)


def reference(lines: list[str], agent: str, repeats: int, start: int | None, end: int | None):
    """What becomes of a dataset, in the plainest words."""
    rows = [json.loads(line) for text in lines for line in text.split("\n") if line.strip()]
    return [
        {**one, "agent_ref": {"type": "responses_api_agents", "name": agent}}
        for one in rows[start:end]
        for _ in range(repeats)
    ]


@pytest.mark.slow
@given(st.lists(DATASET, min_size=1, max_size=3))
def test_every_row_is_written_with_its_agent_as_often_as_asked_for(held: list[Any]) -> None:
    wanted: list[Any] = []
    datasets = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number, (lines, repeats, start, end) in enumerate(held):
            made = reference(lines, f"agent{number}", repeats, start, end)
            if not made or (end is not None and end < (start or 0)):
                return
            wanted += made
            path = write_rows(folder / f"data{number}.jsonl", lines)
            slices = {"num_repeats": repeats, "start_idx": start, "end_idx": end}
            datasets.append(dataset(path, f"agent{number}", **slices))

        prepare(folder / "out", *datasets)

        assert read_rows(folder / "out" / "train.jsonl") == wanted
        each = [read_rows(folder / f"data{n}_prepare.jsonl") for n in range(len(held))]
        assert [one for rows in each for one in rows] == wanted


def test_nothing_but_the_agent_is_added_to_a_row(tmp_path: Path) -> None:
    line = (
        '{"responses_create_params":{"input":"é"}, "big":123456789012345678901234567890,"f":1.0E5}'
    )
    path = write_rows(tmp_path / "data.jsonl", [line])

    prepare(tmp_path, dataset(path))

    reference_text = '"agent_ref": {"type": "responses_api_agents", "name": "agent"}'
    assert (tmp_path / "train.jsonl").read_text() == f"{line[:-1]}, {reference_text}}}\n"


def test_every_bad_row_of_every_file_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    bad = {"responses_create_params": {"input": [{"role": "nobody", "content": 1}]}}
    first = write_rows(tmp_path / "a.jsonl", [row(), "{torn", bad, bad, row(), bad])
    second = write_rows(tmp_path / "b.jsonl", [{"answer": 1}, [], row()])

    with pytest.raises(InputDataError) as caught:
        prepare(tmp_path / "out", dataset(first), dataset(second))

    said = caught.value.message
    assert "a.jsonl: 4 rows cannot be used" in said
    assert "line 2: not JSON" in said
    assert "lines 3-4, 6: /responses_create_params/input/0/role: Input should be 'user'" in said
    assert "line 1: no `responses_create_params`" in said
    assert "line 2: not a JSON object" in said
    assert caught.value.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_rows_are_held_to_what_the_environment_takes(tmp_path: Path) -> None:
    schema = {"properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    path = write_rows(tmp_path / "d.jsonl", [row(answer="4"), row(), row(), row(answer=[4])])

    with pytest.raises(InputDataError) as caught:
        prepare(tmp_path, dataset(path), doors={"agent": [RowEndpoint("env", "/verify", schema)]})

    assert 'lines 2-3: /: "answer" is a required property (required by env/verify)' in str(
        caught.value
    )
    assert 'line 4: /answer: the value is not of type "string"' in str(caught.value)


def test_metrics_stand_beside_the_data_and_those_of_a_type_count_all_its_datasets(
    tmp_path: Path,
) -> None:
    first = write_rows(tmp_path / "a.jsonl", [row("x y", level=1, tag="u"), row(level=2, tag="v")])
    second = write_rows(tmp_path / "b.jsonl", [row("x y", level=6, tag="u")])

    prepare(tmp_path / "out", dataset(first, num_repeats=3), dataset(second))

    own = json.loads((tmp_path / "a_metrics.json").read_text())
    assert (own["name"], own["num_repeats"], own["license"]) == ("set", 3, "MIT")
    assert own["Number of examples"] == 2
    whole = json.loads((tmp_path / "out" / "train_metrics.json").read_text())
    assert (whole["Number of examples"], whole["Number of rows"]) == (3, 7)
    assert whole["level"] == {
        "Total # non-null values": 3,
        "Average": 3.0,
        "Min": 1.0,
        "Max": 6.0,
        "Standard deviation": 2.65,
    }
    assert whole["tag"] == {"unique_count": 2, "total_count": 3}
    assert whole["Unique create params"] == {"unique_count": 2, "total_count": 3}


def test_metrics_that_say_otherwise_are_kept_and_the_new_ones_put_beside_them(
    tmp_path: Path,
) -> None:
    path = write_rows(tmp_path / "a.jsonl", [row(level=1)])
    stored = tmp_path / "a_metrics.json"
    stored.write_text(
        '{"level": {"Average": 1.004}, "Number of examples": 7, "gone": 1, "no": null}'
    )
    earlier = stored.read_text()

    with pytest.raises(InputDataError) as caught:
        prepare(tmp_path / "out", dataset(path))

    assert "Number of examples: 7 is stored, 1 was found" in caught.value.message
    assert "gone: is stored, and was not found" in caught.value.message
    assert "Average" not in caught.value.message
    assert stored.read_text() == earlier
    assert not (tmp_path / "out").exists()
    conflict = tmp_path / "a_metrics_conflict.json"
    assert json.loads(conflict.read_text())["Number of examples"] == 1

    prepare(tmp_path / "out", dataset(path), overwrite_metrics_conflicts=True)

    assert json.loads(stored.read_text())["Number of examples"] == 1
    assert not conflict.exists()


def test_two_datasets_of_one_file_have_files_of_their_own(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "d.jsonl", [row("a"), row("b"), row("c")])
    train = dataset(path, name="first", end_idx=2)
    validation = dataset(path, name="last", type="validation", start_idx=2)

    prepare(tmp_path / "out", train, validation)

    assert len(read_rows(tmp_path / "d_first_prepare.jsonl")) == 2
    assert len(read_rows(tmp_path / "d_last_prepare.jsonl")) == 1
    assert len(read_rows(tmp_path / "out" / "validation.jsonl")) == 1


def test_an_output_never_takes_the_place_of_a_dataset(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", [row()])

    with pytest.raises(InputDataError, match="would be overwritten"):
        prepare(tmp_path, dataset(path))


@pytest.mark.parametrize(("name", "near"), [("temprature", "temperature"), ("toolz", "tools")])
def test_a_misspelt_parameter_is_refused(tmp_path: Path, name: str, near: str) -> None:
    params = {"input": "x", name: []}
    path = write_rows(tmp_path / "d.jsonl", [row(), {"responses_create_params": params}])

    with pytest.raises(BadRows) as caught:
        prepare(tmp_path, dataset(path))

    [(_, problem, lines)] = caught.value.rows.found()
    assert (str(lines), f"/{name} " in problem, f"{near!r}" in problem) == ("2", True, True)


def test_rows_of_a_prompt_are_filled_in(tmp_path: Path) -> None:
    prompt = tmp_path / "p.yaml"
    prompt.write_text("user: 'What is {question}?'\n")
    path = write_rows(tmp_path / "b.jsonl", [{"question": "2 + 2"}])

    prepare(tmp_path, dataset(path, type="benchmark", prompt_config=str(prompt)))

    (made,) = read_rows(tmp_path / "benchmark.jsonl")
    assert made["responses_create_params"]["input"][0]["content"] == "What is 2 + 2?"
    assert made["question"] == "2 + 2"


def test_a_row_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    deep = '{"a":' * 600 + "1" + "}" * 600
    line = f'{{"responses_create_params": {{"input": "x", "metadata": {deep}}}}}'
    path = write_rows(tmp_path / "d.jsonl", [row(answer=1), line])
    doors = {"agent": [RowEndpoint("env", "/verify", {"required": ["answer"]})]}

    with pytest.raises(InputDataError, match="line 2: nested too deeply"):
        prepare(tmp_path / "out", dataset(path), doors=doors)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A real one, of words."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "what": 1}, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_are_counted_by_the_tokenizer_that_is_given(tmp_path: Path, tokenizer: Path) -> None:
    path = write_rows(tmp_path / "d.jsonl", [row("what is it?"), row("what")])

    prepare(tmp_path / "out", dataset(path), tokenizer=tokenizer)

    found = json.loads((tmp_path / "d_metrics.json").read_text())["Number of tokens"]
    assert (found["Min"], found["Max"], found["Average"]) == (1.0, 4.0, 2.5)


def test_a_file_that_is_no_tokenizer_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "t.json").write_text("{}")

    with pytest.raises(ConfigError, match=r"tokenizer .*t\.json: "):
        tokenizer_at(tmp_path / "t.json")

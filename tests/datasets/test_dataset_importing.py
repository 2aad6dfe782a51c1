"""Rows made of tables, chats and questions."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from preparations import read_rows

from palestra.datasets import (
    ColumnMapping,
    PromptTemplate,
    RowEndpoint,
    load_prompt,
    records_of,
    write_rows,
)
from palestra.datasets.preparing.outputs import CannotWrite
from palestra.errors import ConfigError, InputDataError


def imported(
    source: Path, columns: ColumnMapping | None = None, **how: Any
) -> list[dict[str, Any]]:
    output = source.with_name("rows.jsonl")
    how = {"columns": columns or ColumnMapping(), **how}
    write_rows([source], records_of, how.pop("columns").row, output, **how)
    return read_rows(output)


def asked(row: dict[str, Any]) -> list[Any]:
    return [
        (item.get("role"), item.get("content")) for item in row["responses_create_params"]["input"]
    ]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_table_becomes_rows_as_its_columns_are_mapped(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", '\ufeffproblem,solution,level\n"2 + 2,\n= ?",4,1\nx,y,2\n')
    prompt = PromptTemplate(user="Solve: {question}", system="Be brief.")

    rows = imported(table, ColumnMapping({"question": "problem"}, "solution", prompt))

    assert asked(rows[0]) == [("system", "Be brief."), ("user", "Solve: 2 + 2,\n= ?")]
    assert rows[0]["expected_answer"] == "4"
    assert rows[1] == {**rows[1], "question": "x", "expected_answer": "y", "level": "2"}
    assert "problem" not in rows[0]


def test_questions_with_answers_need_no_mapping(tmp_path: Path) -> None:
    text = '{"question": "2 + 2?", "answer": "4", "id": 7}\n'

    (row,) = imported(written(tmp_path / "q.jsonl", text))

    assert asked(row) == [("user", "2 + 2?")]
    assert (row["expected_answer"], row["id"]) == ("4", 7)


def test_a_chat_becomes_the_items_of_a_request_and_its_last_word_the_answer(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
    ]
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    text = json.dumps([{"messages": messages, "tools": tools}])

    (row,) = imported(written(tmp_path / "c.json", text))

    params = row["responses_create_params"]
    assert params["input"][1] == {
        "role": "user",
        "content": [{"type": "input_text", "text": "2 + 2?"}],
    }
    assert params["input"][2]["type"] == "function_call"
    assert params["input"][3] == {"type": "function_call_output", "call_id": "c1", "output": "4"}
    assert params["tools"] == [{"type": "function", "name": "add", "parameters": {}}]
    assert row["expected_answer"] == "It is 4."


def test_a_chat_of_humans_and_gpts_is_read_too(tmp_path: Path) -> None:
    chat = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]

    (row,) = imported(written(tmp_path / "s.jsonl", json.dumps({"conversations": chat})))

    assert asked(row) == [("user", "hi")]
    assert row["expected_answer"] == "hello"


def test_parquet_is_read_as_any_other_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"question": ["a", "b"], "answer": ["1", "2"], "tags": [["x"], []]})
    parquet.write_table(table, tmp_path / "t.parquet")

    rows = imported(tmp_path / "t.parquet")

    assert [row["expected_answer"] for row in rows] == ["1", "2"]
    assert rows[0]["tags"] == ["x"]


def test_a_map_of_parquet_is_an_object(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    prices = pyarrow.array(
        [[("apple", 2.0)]], type=pyarrow.map_(pyarrow.string(), pyarrow.float64())
    )
    parquet.write_table(pyarrow.table({"prices": prices}), tmp_path / "t.parquet")

    [record] = records_of(tmp_path / "t.parquet")

    assert record.row == {"prices": {"apple": 2.0}}


def test_keys_and_dates_of_parquet_that_json_has_not_are_texts(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = pyarrow.array([[(1, "one")]], type=pyarrow.map_(pyarrow.int32(), pyarrow.string()))
    at = pyarrow.array([1], type=pyarrow.timestamp("ns"))
    parquet.write_table(pyarrow.table({"words": words, "at": at}), tmp_path / "t.parquet")

    [record] = records_of(tmp_path / "t.parquet")

    assert record.row == {"words": {"1": "one"}, "at": "1970-01-01T00:00:00.000000001"}


@pytest.mark.parametrize("values", [[b"x"], [{"image": [b"x"]}]])
@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_column_of_bytes_is_named(tmp_path: Path, values: list[Any], is_encoded: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = pyarrow.array(values)
    if is_encoded and pyarrow.types.is_binary(column.type):
        column = column.dictionary_encode()
    parquet.write_table(pyarrow.table({"picture": column}), tmp_path / "t.parquet")

    with pytest.raises(InputDataError, match=r"t\.parquet: the column picture holds bytes"):
        list(records_of(tmp_path / "t.parquet"))


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more"])
def test_a_file_that_is_not_whole_parquet_is_told_as_such(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(content)

    with pytest.raises(InputDataError, match=r"t\.parquet is not a whole Parquet file"):
        list(records_of(tmp_path / "t.parquet"))


def test_every_record_that_gives_no_row_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    source = written(
        tmp_path / "q.jsonl", '{"question": "x"}\n{"q": 1}\nno\n{"question": "y", "answer": 4}\n'
    )
    door = RowEndpoint("env", "/verify", {"required": ["expected_answer"]})

    with pytest.raises(InputDataError) as caught:
        imported(source, doors=[door])

    said = caught.value.message
    assert 'line 1: /: "expected_answer" is a required property (required by env/verify)' in said
    assert "line 2: has neither a chat (messages) nor a question" in said
    assert "line 3: not JSON" in said
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


@pytest.mark.parametrize("template", ["", "{question}", "{question}\nEnd with: Final answer"])
def test_an_empty_question_is_named_and_nothing_is_written(tmp_path: Path, template: str) -> None:
    prompt = PromptTemplate(template) if template else None
    source = written(tmp_path / "t.csv", "question,answer\nTwo?,2\n ,5\n")

    with pytest.raises(InputDataError, match="line 3: /question is empty"):
        imported(source, ColumnMapping(prompt=prompt))

    assert not (tmp_path / "rows.jsonl").exists()


def test_a_prompt_may_show_an_empty_field_beside_its_question() -> None:
    mapping = ColumnMapping(prompt=PromptTemplate("{instruction}\n{input}"))

    row = mapping.row({"instruction": "Count to two.", "input": ""})

    assert asked(row) == [("user", "Count to two.\n")]


def test_a_chat_of_empty_messages_is_named() -> None:
    with pytest.raises(ValueError, match="/messages has only empty messages"):
        ColumnMapping().row({"messages": [{"role": "user", "content": ""}]})


def test_a_reversed_mapping_is_answered_with_the_right_one() -> None:
    with pytest.raises(ValueError, match="--map question=problem"):
        ColumnMapping({"problem": "question"}).row({"problem": "Two?", "solution": "2"})


def test_a_blank_in_the_header_is_named() -> None:
    with pytest.raises(ValueError, match="' target' has a blank before the name"):
        ColumnMapping({"right": "target"}).row({"question": "Two?", " target": "2"})


def test_a_misspelt_field_of_a_prompt_names_the_nearest_one() -> None:
    mapping = ColumnMapping(prompt=PromptTemplate("{qestion}"))

    with pytest.raises(ValueError, match="did you mean 'question'"):
        mapping.row({"question": "Two?", "solution": "2"})


def test_a_misspelt_column_names_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"no column 'anwser'; did you mean 'answer'\?"):
        imported(
            written(tmp_path / "t.csv", "question,answer\nx,y\n"), ColumnMapping(answer="anwser")
        )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "a,b\n1\n", "1 cells under 2 columns"),
        ("t.csv", "a,a\n1,2\n", "named twice"),
        ("t.csv", "", "has no head"),
        ("t.csv", 'a\n"x', "line 2: unexpected end of data"),
        ("t.xls", "", "not a format that can be imported"),
        ("t.csv", "question\n", "has no rows"),
        ("t.json", "5", "neither a list of objects nor an object"),
        ("t.json", '[\n{"q": "x"},\n]', "not JSON, line 2, column 11: trailing comma"),
        ("t.json", "[{'q': 'x'}]", "not JSON, line 1, column 3: unexpected character"),
        ("t.json", '[{"q": NaN}]', "not JSON, line 1, column 8: .* expected a JSON value"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(InputDataError, match=said):
        imported(written(tmp_path / name, text))


@pytest.mark.parametrize(("name", "text"), [("t.csv", 'a\n"x'), ("t.json", "[{}, ]")])
def test_a_broken_file_that_is_compressed_is_named_as_it_was(
    tmp_path: Path, name: str, text: str
) -> None:
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))

    with pytest.raises(InputDataError, match=str(packed)):
        imported(packed)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": 5},
        {"role": "user", "content": 5},
        {"role": "user", "tool_calls": [{"function": "f"}]},
    ],
)
def test_what_is_no_message_of_a_chat_is_named(tmp_path: Path, message: dict[str, Any]) -> None:
    source = written(tmp_path / "c.jsonl", json.dumps({"messages": [message]}))

    with pytest.raises(InputDataError, match="line 1: /messages has a message "):
        imported(source)


def test_a_record_of_a_table_is_named_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", 'question,answer\n"two\nlines",1\n\nalone\n')

    with pytest.raises(InputDataError, match="line 5: 1 cells under 2 columns"):
        imported(table)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_compressed_file_that_is_not_whole_says_to_copy_it_again(
    tmp_path: Path, damaged: bool
) -> None:
    data = gzip.compress(b"".join(b'{"question": "%d"}\n' % (n**9) for n in range(9_000)))
    source = tmp_path / "t.jsonl.gz"
    middle = len(data) // 2
    source.write_bytes(data[:middle] + (b"\xff" * 99 + data[middle:] if damaged else b""))

    with pytest.raises(InputDataError, match="incomplete or damaged") as caught:
        imported(source)

    assert caught.value.hint == "copy or download the file again"


def test_a_compressed_file_needs_no_ending(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_bytes(gzip.compress(b'{"question": "x"}\n'))

    assert [record.row for record in records_of(source)] == [{"question": "x"}]


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        ("question\nx\n".encode("utf-16"), "the file is UTF-16", "iconv -f UTF-16 -t utf-8"),
        ("question\né\n".encode("latin1"), "cannot be read", "iconv -f latin1 -t utf-8"),
        (b"PK\x03\x04\xff", "compressed (zip), not text", "unpack it"),
    ],
)
def test_a_table_that_is_not_utf8_names_its_encoding(
    tmp_path: Path, data: bytes, message: str, hint: str
) -> None:
    source = tmp_path / "t.csv"
    source.write_bytes(data)

    with pytest.raises(InputDataError) as refusal:
        list(records_of(source))

    assert message in refusal.value.message
    assert hint in refusal.value.hint


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    source = written(tmp_path / "t.csv", "question\nx\n")

    with pytest.raises(CannotWrite, match="it is a folder"):
        write_rows([source], records_of, ColumnMapping().row, tmp_path)


def test_a_template_does_not_look_into_python(tmp_path: Path) -> None:
    written(tmp_path / "p.yaml", "user: '{question.__class__}'")

    with pytest.raises(ConfigError, match="fields have no attributes"):
        load_prompt(tmp_path / "p.yaml")
    assert PromptTemplate("{meta[level]}").fields() == {"meta"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("system: be brief\nuser: |\n  {question.x}\n", ":2: "),
        ("user: '{question}'\nsystem: '{}'\n", ":2: "),
        ("user: '{question}'\nassistant: x\n", ":2: unknown assistant"),
        ("\nsystem: x\nuser: [x]\n", ":3 needs a text"),
        ("system: x\n", ":1 needs a text"),
        ("user: x\nsystem: [\n", ", line 2, column 10: "),
        ("only words", " holds a str, not a mapping"),
    ],
)
def test_a_template_is_refused_with_the_line_of_its_key(
    tmp_path: Path, text: str, place: str
) -> None:
    path = written(tmp_path / "p.yaml", text)

    with pytest.raises(ConfigError) as caught:
        load_prompt(path)

    assert f"prompt_config {path}{place}" in caught.value.message


def test_a_table_without_a_question_says_how_to_name_one() -> None:
    with pytest.raises(ValueError, match=r"fields: text\); --map question=COLUMN says which it is"):
        ColumnMapping().row({"text": "2 + 2?"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", "q,a\n1,2\n"),
        ("rows.csv", "q;a\n1;2\n"),
        ("rows.csv", "q\ta\n1\t2\n"),
        ("rows.tsv", "q\ta\n1\t2\n"),
        ("rows.tsv", "q,a\n1,2\n"),
    ],
)
def test_the_header_of_a_table_says_what_separates_its_columns(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)

    assert [line.row for line in records_of(path)] == [{"q": "1", "a": "2"}]


def test_a_comma_in_a_column_of_tabs_separates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("q, in full\ta\n1\t2\n")

    assert [line.row for line in records_of(path)] == [{"q, in full": "1", "a": "2"}]

"""From an input file to one row per rollout, or to one error that names every bad row."""

import contextlib
import json
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scripted_runs import AGENT, read_rows, settings, task, write_rows

from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import Materialized, materialize
from palestra.settings import InputFile


def made(folder: Path, *rows: Any, **changes: Any) -> list[dict[str, Any]]:
    write_rows(folder / "tasks.jsonl", rows)
    materialized(folder, **changes)
    return read_rows(folder / "out" / "rows.jsonl")


def materialized(folder: Path, **changes: Any) -> Materialized:
    asked = settings(folder, **changes)
    return materialize(asked, folder / "out" / "rows.jsonl", agents={AGENT, "other_agent"})


def refused(folder: Path, *rows: Any, **changes: Any) -> str:
    with pytest.raises(InputDataError) as caught:
        made(folder, *rows, **changes)
    return caught.value.message


def keys(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def template(folder: Path, text: str) -> Path:
    path = folder / "prompt.yaml"
    path.write_text(text)
    return path


def test_a_row_that_names_another_server_than_an_agent_is_told_its_kind(tmp_path: Path) -> None:
    ref = {"type": "resources_servers", "name": "vault"}

    assert "line 1: /agent_ref names a resources server ('vault'), not an agent" in refused(
        tmp_path, task(1, agent_ref=ref)
    )


def test_repeats_of_a_row_follow_each_other(tmp_path: Path) -> None:
    rows = made(tmp_path, task(7), task(8), num_repeats=2)

    assert [row["number"] for row in rows] == [7, 7, 8, 8]
    assert keys(rows) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_identical_rows_are_one_task_wherever_they_stand(tmp_path: Path) -> None:
    rows = made(tmp_path, task(7), task(8), task(7), num_repeats=2)

    assert keys(rows) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]


def test_a_given_task_index_is_kept(tmp_path: Path) -> None:
    rows = made(tmp_path, task(7, _ng_task_index=40), task(8, _ng_task_index=12), num_repeats=2)

    assert keys(rows) == [(40, 0), (40, 1), (12, 0), (12, 1)]


def test_materialized_inputs_can_be_materialized_again(tmp_path: Path) -> None:
    once = made(tmp_path, task(7), task(8), task(7), num_repeats=2)

    assert made(tmp_path, *once) == once


def test_rows_of_two_tasks_with_one_index_are_refused_with_both_lines(tmp_path: Path) -> None:
    first, second = task(7, _ng_task_index=0), task(8, _ng_task_index=1)

    message = refused(tmp_path, first, second, {**second, "_ng_task_index": 0}, second)

    assert "line 3: /_ng_task_index is 0, as on line 1, which is another task" in message
    assert "line 4" not in message


@pytest.mark.parametrize(
    "other",
    [
        task(7, answer="A"),
        task(7, agent_ref={"name": "other_agent"}),
        task(7) | {"responses_create_params": {"input": "question 7", "temperature": 1}},
        task(7) | {"responses_create_params": {"input": "question 7", "metadata": {"a": "b"}}},
    ],
    ids=["another answer", "another agent", "other parameters", "other metadata"],
)
def test_one_difference_makes_another_task(tmp_path: Path, other: dict[str, Any]) -> None:
    rows = [task(7, agent_ref={"name": AGENT}, _ng_task_index=0), other | {"_ng_task_index": 0}]

    assert "which is another task" in refused(tmp_path, *rows, agent_name=AGENT)


def test_the_first_row_of_an_index_is_named_with_its_file(tmp_path: Path) -> None:
    inputs = [
        InputFile(write_rows(tmp_path / f"{number}.jsonl", [task(number, _ng_task_index=0)]))
        for number in (1, 2)
    ]

    with pytest.raises(InputDataError) as caught:
        materialized(tmp_path, inputs=inputs)

    assert f"as on {tmp_path / '1.jsonl'} line 1" in caught.value.message


def test_an_indexed_file_of_two_agents_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "tasks.jsonl", [task(7, _ng_task_index=0)])
    inputs = [InputFile(path, agent=agent) for agent in (AGENT, "other_agent")]

    with pytest.raises(InputDataError, match="line 1: /_ng_task_index is 0, for two agents"):
        materialized(tmp_path, inputs=inputs)


def test_what_a_rollout_has_of_its_own_makes_no_other_task(tmp_path: Path) -> None:
    once = made(tmp_path, task(7), num_repeats=3, num_repeats_add_seed=True)
    named = [row | {"_ng_rollout_id": str(number)} for number, row in enumerate(once)]

    assert made(tmp_path, *named) == named


def test_results_of_one_task_are_rows_of_one_task(tmp_path: Path) -> None:
    results = [
        task(7, _ng_task_index=4, response={"id": str(number)}, reward=0.5, extracted=number)
        for number in range(2)
    ]

    assert keys(made(tmp_path, *results)) == [(4, 0), (4, 1)]


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (2, 2), (9, 3), (None, 3)])
def test_a_limit_takes_the_first_rows(tmp_path: Path, limit: int | None, expected: int) -> None:
    rows = made(tmp_path, task(1), task(2), task(3), limit=limit)

    assert [row["number"] for row in rows] == [1, 2, 3][:expected]


def test_rows_beyond_the_limit_may_be_bad(tmp_path: Path) -> None:
    assert len(made(tmp_path, task(1), {"broken": True}, limit=1)) == 1


def test_a_seed_joins_what_extra_body_holds_already(tmp_path: Path) -> None:
    params = {"input": "q", "metadata": {"extra_body": '{"top_k": 5}', "note": "x"}}
    rows = made(
        tmp_path, {"responses_create_params": params}, num_repeats=2, num_repeats_add_seed=True
    )

    metadata = [row["responses_create_params"]["metadata"] for row in rows]
    assert [json.loads(m["extra_body"]) for m in metadata] == [
        {"top_k": 5, "seed": 0},
        {"top_k": 5, "seed": 1},
    ]
    assert {m["note"] for m in metadata} == {"x"}


@pytest.mark.parametrize("extra_body", ["not json", "[1]", "5"])
def test_an_extra_body_that_cannot_take_a_seed_is_a_bad_row(
    tmp_path: Path, extra_body: str
) -> None:
    params = {"input": "q", "metadata": {"extra_body": extra_body}}
    message = refused(tmp_path, {"responses_create_params": params}, num_repeats_add_seed=True)

    assert "line 1: /responses_create_params/metadata/extra_body" in message


def test_overrides_reach_every_row_and_win(tmp_path: Path) -> None:
    own = {"responses_create_params": {"input": "q", "temperature": 0.2, "top_p": 0.9}}
    rows = made(tmp_path, own, task(1), responses_create_params={"temperature": 1.0})

    assert [row["responses_create_params"].get("temperature") for row in rows] == [1.0, 1.0]
    assert rows[0]["responses_create_params"]["top_p"] == 0.9


def test_a_prompt_is_filled_from_row_fields(tmp_path: Path) -> None:
    prompt = template(tmp_path, "system: 'Be {style}.'\nuser: '{question} {{x}}'")
    rows = made(tmp_path, {"question": "2 + 2?", "style": "brief"}, prompt_config=prompt)

    assert rows[0]["responses_create_params"]["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2? {x}"},
    ]


@pytest.mark.parametrize("text", ["{{question}}", "Q: {{ question }}", "{{question | trim}}?"])
def test_a_field_in_the_braces_of_jinja_is_refused(tmp_path: Path, text: str) -> None:
    prompt = template(tmp_path, f"user: '{text}'")

    message = refused(tmp_path, {"question": "2 + 2?"}, prompt_config=prompt)

    assert "line 1: prompt_config has no field: {{question}} is the literal text" in message
    assert message.endswith("write {question}")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('{question} Reply as {{"question": 1}} or {{question}}', '2? Reply as {"question": 1} or {question}'),
        (r"Write \boxed{{question}}", r"Write \boxed{question}"),
        ("Reply with {{answer}}", "Reply with {answer}"),
        ("{{{question}}}", "{2?}"),
        ("Begin.", "Begin."),
    ],
)  # fmt: skip
def test_literal_braces_and_a_prompt_without_fields_are_kept(
    tmp_path: Path, text: str, asked: str
) -> None:
    prompt = template(tmp_path, f"user: '{text}'")

    (row,) = made(tmp_path, {"question": "2?"}, prompt_config=prompt)

    assert row["responses_create_params"]["input"] == [{"role": "user", "content": asked}]


def test_a_prompt_keeps_the_other_parameters_of_a_row(tmp_path: Path) -> None:
    row = {"responses_create_params": {"temperature": 0.5}, "question": "q"}
    rows = made(tmp_path, row, prompt_config=template(tmp_path, "user: '{question}'"))

    assert rows[0]["responses_create_params"]["temperature"] == 0.5


def test_a_datasets_own_prompt_is_filled_unless_the_command_names_one(tmp_path: Path) -> None:
    own = template(tmp_path, "user: 'own {question}'")
    write_rows(tmp_path / "tasks.jsonl", [{"question": "q"}])
    inputs = (InputFile(tmp_path / "tasks.jsonl", prompt_config=own),)
    other = tmp_path / "other.yaml"
    other.write_text("user: 'other {question}'")

    for said, changes in (("own q", {}), ("other q", {"prompt_config": other})):
        materialized(tmp_path, inputs=inputs, **changes)
        (row,) = read_rows(tmp_path / "out" / "rows.jsonl")
        assert row["responses_create_params"]["input"] == [{"role": "user", "content": said}]


def test_a_prompt_never_replaces_an_input(tmp_path: Path) -> None:
    prompt = template(tmp_path, "user: '{number}'")
    message = refused(tmp_path, task(1), {"number": 2}, task(3), prompt_config=prompt)

    assert "2 rows cannot be used" in message
    assert "lines 1, 3: /responses_create_params/input is there already" in message


def test_a_row_without_the_fields_of_the_prompt_is_bad(tmp_path: Path) -> None:
    prompt = template(tmp_path, "user: '{question} {choices[0]} {tail}'")
    message = refused(tmp_path, {"choices": [1], "tail": ""}, {}, prompt_config=prompt)

    assert "line 1: prompt_config needs the fields question" in message
    assert "line 2: prompt_config needs the fields choices, question, tail" in message


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("{a[b]}", {"a": {}}),
        ("{a[3]}", {"a": [1]}),
        ("{a:d}", {"a": "no number"}),
    ],
)
def test_a_row_that_the_prompt_cannot_use_is_bad(
    tmp_path: Path, text: str, row: dict[str, Any]
) -> None:
    prompt = template(tmp_path, f"user: '{text}'")

    assert "line 1: prompt_config cannot be filled: " in refused(
        tmp_path, row, prompt_config=prompt
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("user: 'brace } here'", "Single '}'"),
        ("user: 'brace { here'", "expected '}'"),
        ("user: '{}'", "a placeholder has no name"),
        ("system: x", "needs a text under `user`"),
        ("user: x\nsytem: y", "unknown sytem"),
        ("user: 'x", "line 1, column 9: found unexpected end"),
    ],
)
def test_a_prompt_file_that_means_nothing_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("`", ".")):
        made(tmp_path, {}, prompt_config=template(tmp_path, text))


def test_a_missing_prompt_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.yaml: No such file"):
        made(tmp_path, {}, prompt_config=tmp_path / "no.yaml")


def test_the_agent_of_a_row_wins_over_the_given_one(tmp_path: Path) -> None:
    own = task(1, agent_ref={"type": "responses_api_agents", "name": "other_agent"})
    rows = made(tmp_path, own, task(2))

    assert [row["agent_ref"]["name"] for row in rows] == ["other_agent", AGENT]
    assert {row["agent_ref"]["type"] for row in rows} == {"responses_api_agents"}


def test_rows_without_any_agent_are_all_named(tmp_path: Path) -> None:
    rows = [task(n) for n in range(1, 5)] + [task(5, agent_ref={"name": AGENT}), task(6)]
    message = refused(tmp_path, *rows, agent_name=None)

    assert "5 rows cannot be used" in message
    assert "lines 1-4, 6: no agent_ref, and no agent_name was given" in message
    assert f"(agents: {', '.join(sorted([AGENT, 'other_agent']))})" in message


def test_the_only_agent_needs_no_naming(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    asked = settings(tmp_path, agent_name=None)
    materialize(asked, tmp_path / "out" / "rows.jsonl", agents={AGENT})

    assert read_rows(tmp_path / "out" / "rows.jsonl")[0]["agent_ref"]["name"] == AGENT


def test_an_agent_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    message = refused(tmp_path, task(1, agent_ref={"name": "agnet"}), task(2))

    assert "line 1: agent 'agnet' does not exist (agents: agent, other_agent)" in message


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    lines = [
        json.dumps(task(1)),
        "{broken",
        "[1, 2]",
        "{}",
        "{}",
        json.dumps({"responses_create_params": "text"}),
        json.dumps({"responses_create_params": {"input": "q", "temperature": "hot"}}),
        json.dumps(task(2, agent_ref={"name": ["x"]})),
        json.dumps(task(2, _ng_task_index="one")),
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputDataError) as caught:
        materialized(tmp_path)

    assert caught.value.message.splitlines()[0].endswith("tasks.jsonl: 8 rows cannot be used")
    for part in (
        "line 2: not JSON",
        "line 3: not a JSON object",
        "lines 4-5: no `responses_create_params`",
        "line 6: /responses_create_params is not an object",
        "line 7: /responses_create_params/temperature: Input should be a valid number",
        "line 8: /agent_ref/name is not a text",
        "line 9: /_ng_task_index is 'one', not a whole number",
    ):
        assert part in caught.value.message


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"input": [{"role": "user", "content": "q"}, {"role": 5}]}, "/input/1/content: Field"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "x"}]}, "/input/0/arguments"),
        ({"input": "q", "tools": [{"type": "function"}]}, "/tools/0/name: Field required"),
        ({"input": 5}, "/input: Input should be a valid list"),
        ({}, "/input: Field required"),
        ({"input": "q", "temperatur": 1}, "/temperatur is no parameter of a request; did you mean"),
        (
            {"input": "q", "temp": 1},
            "/temp is no parameter of a request; did you mean 'temperature'",
        ),
        ({"messages": []}, "/input: Field required; 'messages' is its name in Chat Completions"),
        ({"input": "q", "metadata": {"a": 1}}, "/metadata/a: Input should be a valid string"),
    ],
)
def test_the_pointer_leads_to_the_bad_part_of_a_row(
    tmp_path: Path, params: dict[str, Any], says: str
) -> None:
    message = refused(tmp_path, {"responses_create_params": params})

    assert f"line 1: /responses_create_params{says}" in message
    assert "union" not in message


def test_metadata_takes_texts_and_objects_for_our_model_servers(tmp_path: Path) -> None:
    metadata = {"note": "x", "nothing": None, "extra_body": {"top_k": 5}}
    rows = made(tmp_path, {"responses_create_params": {"input": "q", "metadata": metadata}})

    assert rows[0]["responses_create_params"]["metadata"] == metadata


def test_parameters_that_are_no_object_are_a_bad_row_with_a_prompt_too(tmp_path: Path) -> None:
    prompt = template(tmp_path, "user: '{q}'")
    message = refused(tmp_path, {"q": 1, "responses_create_params": "text"}, prompt_config=prompt)

    assert "line 1: /responses_create_params is not an object" in message


def test_task_indices_are_given_for_all_rows_or_for_none(tmp_path: Path) -> None:
    message = refused(tmp_path, task(1), task(2, _ng_task_index=0), task(3, _ng_task_index=0))

    assert "line 1: no _ng_task_index, but line 2 has one" in message


def test_an_empty_input_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).endswith("tasks.jsonl has no rows")


def test_a_missing_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="does not exist"):
        materialized(tmp_path)


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    refused(tmp_path, task(1), {})

    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_folders_that_were_there_stay_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    refused(tmp_path, {})

    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("tasks.jsonl", "not a folder"), ("tasks.jsonl/deeper", "not a folder"), ("/proc/x", "")],
)
def test_an_output_that_cannot_be_written_is_refused(
    tmp_path: Path, folder: str, reason: str
) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    with pytest.raises(InputDataError, match=f"cannot write to .*: {reason}"):
        materialize(settings(tmp_path), tmp_path / folder / "rows.jsonl", agents={AGENT})


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    with full_disk(), pytest.raises(InputDataError, match="File too large"):
        materialize(settings(tmp_path), tmp_path / "rows.jsonl", agents={AGENT})

    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_the_digest_is_that_of_the_rows_in_use(tmp_path: Path) -> None:
    def digest(*rows: Any, **changes: Any) -> str:
        write_rows(tmp_path / "tasks.jsonl", rows)
        return materialized(tmp_path, **changes).input_digest

    two = digest(task(1), task(2))
    assert two == digest(task(1), task(2), task(3), limit=2)
    assert two != digest(task(2), task(1))
    assert two != digest(task(1), task(2, extra=1))


def reference(rows: list[dict[str, Any]], repeats: int) -> list[dict[str, Any]]:
    """What materialization means, in ten lines."""
    tasks: list[Mapping[str, Any]] = []
    expected: list[dict[str, Any]] = []
    for row in rows:
        if row not in tasks:
            tasks.append(row)
        for _ in range(repeats):
            number = tasks.index(row)
            rollout = sum(other["_ng_task_index"] == number for other in expected)
            expected.append({**row, "_ng_task_index": number, "_ng_rollout_index": rollout})
    return expected


@pytest.mark.slow
@given(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=8), repeats=st.integers(1, 4))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_agrees_with_the_reference(tmp_path: Path, numbers: list[int], repeats: int) -> None:
    ref = {"type": "responses_api_agents", "name": AGENT}
    rows = [task(number, agent_ref=ref) for number in numbers]

    assert made(tmp_path, *rows, num_repeats=repeats) == reference(rows, repeats)

"""Tool schemas: what rules and compilers say, where, and how often they are asked."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from palestra.causes import Severity
from palestra.cli.main import app
from palestra.doctor import ToolCheck, check_tool_schemas
from palestra.doctor.grammars import Compile, installed_compilers
from palestra.schema import Line

CAPTURES = Path(__file__).parents[1] / "responses_api_models" / "vllm_captures"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PARAMETERS = "/responses_create_params/tools/0/parameters"


def row(*tools: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "hi", "tools": list(tools)}}


def tool(parameters: Any, name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": parameters, **more}


def checked(*rows: Any, compilers: dict[str, Compile] | None = None, key: str = "") -> ToolCheck:
    lines = [Line(number, held) for number, held in enumerate(rows, 1)]
    given = installed_compilers() if compilers is None else compilers
    return check_tool_schemas(lines, source="rows.jsonl", compilers=given, summary_key=key)


def by_rules(parameters: Any) -> list[tuple[str, str, str]]:
    """Severity, cause and pointer of what the rules alone find."""
    found = checked(row(tool(parameters)), compilers={}).problems
    return [
        (p.severity.value, p.cause.removeprefix("data.tool-"), p.pointer.removeprefix(PARAMETERS))
        for p in found
    ]


def holding(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_plain_schema_is_clean_for_rules_and_compilers() -> None:
    assert checked(row(tool(CITY))).problems == ()


@pytest.mark.parametrize(
    ("parameters", "finding"),
    [
        ({"properties": {}}, ("error", "top-type", "")),
        (holding(a="string"), ("error", "not-a-schema", "/properties/a")),
        (holding(a={"type": "strin"}), ("error", "not-a-schema", "/properties/a/type")),
        ({"type": "object", "properties": ["a"]}, ("error", "not-a-schema", "/properties")),
        ({**CITY, "required": "city"}, ("error", "not-a-schema", "/required")),
        (holding(a={"minimum": "1"}), ("error", "not-a-schema", "/properties/a/minimum")),
        (holding(a={"anyOf": [True]}), ("warning", "boolean-schema", "/properties/a/anyOf/0")),
        (
            {**CITY, "additionalProperties": False},
            ("note", "boolean-schema", "/additionalProperties"),
        ),
        (
            holding(a={"type": "string", "format": "uri"}),
            ("warning", "format", "/properties/a/format"),
        ),
        ({"type": "object", "patternProperties": {}}, ("warning", "keyword", "/patternProperties")),
        (holding(a={"$ref": "#/$defs/B"}), ("error", "ref", "/properties/a/$ref")),
        (holding(a={"$ref": "https://example.com/b"}), ("error", "ref", "/properties/a/$ref")),
        (holding(a={"$ref": "#/properties/a"}), ("error", "ref-cycle", "/properties/a/$ref")),
        (
            holding(a={"type": "array", "items": {"$ref": "#"}}),
            ("warning", "ref-cycle", "/properties/a/items/$ref"),
        ),
    ],
)
def test_a_rule_names_the_place(parameters: Any, finding: tuple[str, str, str]) -> None:
    assert by_rules(parameters) == [finding]


def test_what_strict_mode_requires_is_clean_in_a_strict_tool() -> None:
    inner = {**CITY, "additionalProperties": False}
    closed = {**holding(a=inner), "required": ["a"], "additionalProperties": False}
    nested = {"type": "function", "function": {**tool(closed), "strict": True}}

    assert checked(row(tool(closed, strict=True)), row(nested)).problems == ()


def test_a_property_may_have_the_name_of_what_closes_an_object() -> None:
    assert by_rules(holding(additionalProperties=False)) == [
        ("warning", "boolean-schema", "/properties/additionalProperties")
    ]


def test_what_is_data_is_not_taken_for_a_schema() -> None:
    data = {"type": "object", "properties": "x", "$ref": "#/nowhere"}

    assert by_rules(holding(a={"type": "object", "default": data, "enum": [data]})) == []


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    named = {"format": {"type": "string"}, "not": {"type": "integer"}, "a/b~c": {"type": "null"}}

    assert by_rules(holding(**named)) == []


def test_definitions_that_refer_to_each_other_are_followed() -> None:
    shared = {**holding(a={"$ref": "#/$defs/B"}, c={"$ref": "#/$defs/B"}), "$defs": {"B": CITY}}

    assert by_rules(shared) == []


@pytest.mark.parametrize("name", ["get weather", "", "a" * 65, "wetter_für", None])
def test_a_name_that_no_endpoint_takes_is_an_error(name: Any) -> None:
    problems = checked(row(tool(CITY, name=name)), compilers={}).problems

    assert [p.cause for p in problems] == ["data.tool-name"]
    assert problems[0].pointer == "/responses_create_params/tools/0/name"


def test_two_tools_of_one_name_are_told() -> None:
    problems = checked(row(tool(CITY), tool(holding())), compilers={}).problems

    assert [(p.cause, p.pointer) for p in problems] == [
        ("data.tool-twice", "/responses_create_params/tools/1/name")
    ]


def test_a_hosted_tool_has_no_schema_to_check() -> None:
    assert checked(row({"type": "web_search"}), {"responses_create_params": {}}).problems == ()


def test_a_schema_is_compiled_once_however_often_it_occurs() -> None:
    asked: list[str] = []
    compilers = {"first": lambda schema: asked.append(schema) or ""}
    rows = [row(tool(CITY, description=f"told for the {n}th time")) for n in range(500)]

    check = checked(*rows, compilers=compilers)

    assert len(asked) == check.tools == 1


def test_a_problem_is_placed_in_the_row_where_it_was_first_seen() -> None:
    bad = row(tool(holding(a=1)))

    problem = checked(row(tool(CITY)), bad, bad, compilers={}).problems[0]

    assert (problem.line, problem.rows) == (2, 2)


def test_what_the_first_compiler_refuses_and_another_takes_is_a_warning() -> None:
    check = checked(row(tool(CITY)), compilers={"a": lambda _: "too hard", "b": lambda _: ""})

    assert [(p.severity, p.message) for p in check.problems] == [
        (Severity.WARNING, "a says: too hard; b takes it")
    ]


def test_what_only_a_later_compiler_refuses_is_not_told() -> None:
    compilers = {"a": lambda _: "", "b": lambda _: "too hard"}

    assert checked(row(tool(CITY)), compilers=compilers).problems == ()


@pytest.mark.skipif(not find_spec("llguidance"), reason="needs a grammar compiler")
def test_what_no_compiler_takes_is_an_error_at_the_innermost_node() -> None:
    problem = checked(row(tool(holding(a={"type": "string", "pattern": "([a-z"})))).problems[0]

    assert (problem.cause, problem.severity) == ("data.tool-grammar", Severity.ERROR)
    assert problem.pointer == f"{PARAMETERS}/properties/a"
    assert "unclosed" in problem.message.lower()


def test_the_summary_counts_rows_and_problems_by_group() -> None:
    rows = [{**row(tool(CITY)), "of": {"set": "good"}}]
    rows += [{**row(tool(holding(a=1))), "of": {"set": "bad"}}] * 2

    groups = checked(*rows, compilers={}, key="of.set").groups

    told = {k: (g.rows, g.rows_with_errors, g.problems.total()) for k, g in groups.items()}
    assert told == {"good": (1, 0, 0), "bad": (2, 2, 1)}


def test_findings_gather_what_has_one_cause() -> None:
    rows = [row(tool(holding(a=n))) for n in range(20)]

    findings = checked(*rows, compilers={}).findings()

    assert [f.cause for f in findings] == ["data.tool-not-a-schema"]
    assert "and 19 more" in findings[0].symptom
    assert [q.line for q in findings[0].evidence] == [1, 2, 3, 4, 5]


def captured() -> list[Path]:
    return sorted(CAPTURES.glob("*bad_tool*.json"))


@pytest.mark.skipif(not captured(), reason="needs the recorded answers of vLLM")
@pytest.mark.parametrize("path", captured(), ids=lambda path: path.stem)
def test_each_tool_that_vllm_refused_or_took_and_should_not_have_is_an_error(path: Path) -> None:
    body = json.loads(path.read_text())["request"]["body"]

    assert checked(body).count(Severity.ERROR) >= 1


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", "tools", *arguments])


def written(folder: Path, *rows: Any) -> str:
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps(held) + b"\n" for held in rows))
    return str(path)


def test_the_command_ends_with_no_errors_for_a_clean_file(tmp_path: Path) -> None:
    done = run(written(tmp_path, row(tool(CITY))))

    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "Errors: 0")


def test_the_command_exits_1_with_line_and_pointer_of_an_error(tmp_path: Path) -> None:
    done = run(written(tmp_path, row(tool(CITY)), row(tool(holding(a=1)))))

    assert done.exit_code == 1
    assert f"rows.jsonl:2 {PARAMETERS}/properties/a" in done.stdout
    assert done.stdout.splitlines()[-1] == "Errors: 1"


def test_the_command_exits_2_for_a_line_that_is_no_row(tmp_path: Path) -> None:
    done = run(written(tmp_path, row(tool(CITY)), "no row"))

    assert done.exit_code == 2
    assert "rows.jsonl:2" in done.stderr


def test_the_command_tells_machines_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, {**row(tool(holding(a=1))), "domain": "math"})

    told = json.loads(run(file, "--json", "--summary-key", "domain").stdout)

    assert (told["errors"], told["problems"][0]["line"]) == (1, 1)
    assert told["groups"]["math"]["rows_with_errors"] == 1

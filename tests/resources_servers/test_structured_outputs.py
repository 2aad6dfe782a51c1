import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import (
    answered,
    called,
    example_rows,
    post_verify,
    recorded_results,
    response,
    said,
    server_of,
    verify,
)

from growth import growth
from palestra.resources_servers.structured_outputs.app import StructuredOutputsServer
from palestra.resources_servers.structured_outputs.documents import check_size, read_document
from palestra.resources_servers.structured_outputs.grading import Schema
from palestra.resources_servers.structured_outputs.shapes import NoDocument, Shape
from palestra.schema import encode_json
from palestra.server import ResourcesServer
from palestra.transport import call_asgi

FERRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "cars": {"type": ["integer", "null"]},
        "load": {"type": "number"},
        "busy": {"type": "boolean"},
        "stops": {"type": "array", "items": {"type": "string"}},
        "crew": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "cars", "load", "busy", "stops", "crew"],
    "additionalProperties": False,
}
GOLD = {
    "name": "Alma",
    "cars": 40,
    "load": 1.5,
    "busy": True,
    "stops": ["Norrby"],
    "crew": [{"name": "Ida", "age": 50}, {"name": "Bo", "age": 20}],
}
YAML = """\
name: Alma
cars: 40
load: 1.5
busy: true
stops: [Norrby]
crew:
- {name: Ida, age: 50}
- name: Bo
  age: 20
"""
XML = """\
<?xml version="1.0"?>
<ferry>
  <name>Alma</name><cars>40</cars><load>1.5</load><busy>true</busy>
  <stops>Norrby</stops>
  <crew><person name="Ida"><age>50</age></person><person><name>Bo</name><age>20</age></person></crew>
</ferry>
"""
TOML = """\
name = "Alma"
cars = 40
load = 1.5
busy = true
stops = ["Norrby"]
[[crew]]
name = "Ida"
age = 50
[[crew]]
name = "Bo"
age = 20
"""
DOCUMENTS = {"json": json.dumps(GOLD, indent=1), "yaml": YAML, "xml": XML, "toml": TOML}
LIST_OF_STOPS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "stop": {"type": "string"},
            "depth": {"type": ["number", "null"]},
            "open": {"type": "boolean"},
            "note": {"type": "integer"},
        },
        "required": ["stop", "depth", "open"],
        "additionalProperties": False,
    },
}


DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def row(schema: Any, notation: str = "json", **more: Any) -> dict[str, Any]:
    return {"schema_str": json.dumps(schema), "schema_type": notation, **more}


def graded(server: ResourcesServer, schema: Any, text: str, notation: str = "json") -> float:
    return verify(server, row(schema, notation), said(text))["reward"]


def value(text: str, notation: Any, schema: Any = None) -> Any:
    return read_document(text, notation, Shape(schema or {}))[0]


@pytest.fixture(scope="module")
def server() -> Iterator[StructuredOutputsServer]:
    made = server_of(StructuredOutputsServer)
    yield made
    asyncio.run(made.stop())


def test_recorded_rollouts_get_their_recorded_rewards(server: ResourcesServer) -> None:
    # They keep no field of their rows: the schema is the one that the prompt states.
    for result in recorded_results("structured_outputs"):
        params = result["responses_create_params"]
        ours = verify(server, {"responses_create_params": params}, *result["response"]["output"])

        assert ours["reward"] == result["reward"]


@pytest.mark.parametrize("notation", DOCUMENTS)
def test_a_valid_document_is_worth_one(server: ResourcesServer, notation: str) -> None:
    result = verify(server, row(FERRY, notation), said(DOCUMENTS[notation]))

    assert (result["reward"], result["schema_problem"]) == (1.0, None)


@pytest.mark.parametrize("notation", DOCUMENTS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: " \n",
        lambda text: text[: len(text) // 2],
        lambda text: f"```\n{text}\n```",
        lambda text: f"Here it is:\n\n{text}",
        lambda text: text.replace("40", "many"),
        lambda text: text.replace("cars", "carts"),
        lambda text: text.replace("50", "50.5"),
        lambda text: "\x00" + text,
    ],
)
def test_any_other_text_is_worth_nothing_and_says_why(
    server: ResourcesServer, notation: str, spoil: Any
) -> None:
    result = verify(server, row(FERRY, notation), said(spoil(DOCUMENTS[notation])))

    assert result["reward"] == 0.0
    assert 0 < len(result["schema_problem"]) <= 400


@pytest.mark.parametrize("notation", DOCUMENTS)
def test_a_document_of_another_notation_is_worth_nothing(
    server: ResourcesServer, notation: str
) -> None:
    # JSON is YAML too.
    others = [n for n in DOCUMENTS if n != notation and (n, notation) != ("json", "yaml")]

    assert not any(graded(server, FERRY, DOCUMENTS[other], notation) for other in others)


def test_what_is_wrong_is_said_with_its_place_but_without_the_value(
    server: ResourcesServer,
) -> None:
    spoilt = json.dumps({**GOLD, "name": ["x" * 1000]})

    result = verify(server, row(FERRY), said(spoilt))

    assert result["schema_problem"] == '/name: the value is not of type "string"'


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1,}', "{'a': 1}", "{}{}", "\ufeff{}"])
def test_json_is_strict(server: ResourcesServer, text: str) -> None:
    assert graded(server, {}, text) == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a: yes\nb: 2024-01-31\nc: 12:30\nd: ~\ne: True\n",
            ["yes", "2024-01-31", "12:30", None, True],
        ),
        ("a: 0o17\nb: 0x1F\nc: -1e3\nd: '5'\ne: 1_000\n", [15, 31, -1000.0, "5", "1_000"]),
        ("a: !!str 5\nb: |\n  x\n  y\nc: no\nd: \ne: .5", ["5", "x\ny\n", "no", None, 0.5]),
        ("a: &x [1]\nb: *x\nc: {}\nd: []\ne: <<", [[1], [1], {}, [], "<<"]),
    ],
)
def test_yaml_has_the_types_of_its_core_schema(text: str, expected: list[Any]) -> None:
    assert list(value(text, "yaml").values()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2",
        "---\na\n---\nb",
        "? [a]\n: b",
        "a: !!python/object/apply:os.system [id]",
        "a: &x [*x]",
        "a: *unknown",
        "a: b: c",
        "[" * 101 + "]" * 101,
        "",
    ],
)
def test_yaml_that_is_no_plain_document_is_refused(text: str) -> None:
    with pytest.raises(NoDocument):
        value(text, "yaml")


def test_aliases_of_aliases_do_not_blow_up() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )

    with pytest.raises(NoDocument, match="values"):
        value(bomb, "yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<f><stops>A</stops><stops>B</stops></f>", {"stops": ["A", "B"]}),
        ("<f><stops><stop>A</stop><stop>B</stop></stops></f>", {"stops": ["A", "B"]}),
        ("<f><stops/></f>", {"stops": []}),
        ("<f><crew><name>Ida</name></crew></f>", {"crew": [{"name": "Ida"}]}),
        ("<f><crew><name>Ida</name><age>5</age></crew></f>", {"crew": [{"name": "Ida", "age": 5}]}),
        ("<f><crew><p><age>5</age></p></crew></f>", {"crew": [{"age": 5}]}),
        ("<f><cars/><busy> FALSE </busy></f>", {"cars": None, "busy": False}),
        ("<f><load>x</load><load>2</load></f>", {"load": ["x", 2]}),
        ("<f><name>007</name></f>", {"name": "007"}),
        (
            "<x:f xmlns:x='u' cars='3'><x:name><![CDATA[<b>]]></x:name></x:f>",
            {"cars": 3, "name": "<b>"},
        ),
        ("<f>stray<name>a &amp; b</name></f>", {"name": "a & b", "#text": "stray"}),
    ],
)
def test_xml_is_read_as_its_schema_would_have_it(text: str, expected: Any) -> None:
    assert value(text, "xml", FERRY) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"const": 5}}},
        {"properties": {"a": {"enum": [1, 5]}}},
        {"additionalProperties": {"type": "integer"}},
        {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
        {"unevaluatedProperties": {"type": "integer"}},
        {"if": {"required": ["a"]}, "then": {"properties": {"a": {"type": "integer"}}}},
        {"if": False, "else": {"properties": {"a": {"type": "integer"}}}},
    ],
)
@pytest.mark.parametrize(("notation", "text"), [("xml", "<r><a>5</a></r>"), ("csv", "a\n5")])
def test_text_is_a_number_wherever_the_schema_asks_for_one(
    server: ResourcesServer, schema: dict[str, Any], notation: str, text: str
) -> None:
    assert graded(server, {"type": "object", **schema}, text, notation) == 1.0
    assert graded(server, {"type": "object", **schema}, text.replace("5", "x"), notation) == 0.0


@pytest.mark.parametrize(
    "listed",
    [
        {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": {"const": 5}},
    ],
)
def test_items_of_xml_are_read_by_their_places(
    server: ResourcesServer, listed: dict[str, Any]
) -> None:
    draft, parts = listed.get("$schema", DRAFT_2020), {**listed, "type": "array"}
    parts.pop("$schema", None)
    schema = {"$schema": draft, "type": "object", "properties": {"a": parts}}

    assert graded(server, schema, "<r><a>5</a><a>5</a></r>", "xml") == 1.0
    assert graded(server, schema, "<r><a>5</a><a>x</a></r>", "xml") == 0.0


def test_a_pattern_that_is_none_of_ours_leaves_the_text_a_text(server: ResourcesServer) -> None:
    schema = {"type": "object", "patternProperties": {r"^\p{L}$": {"type": "string"}}}

    assert graded(server, schema, "<r><a>5</a></r>", "xml") == 1.0


def test_the_root_of_xml_may_be_the_only_property(server: ResourcesServer) -> None:
    schema = {"type": "object", "properties": {"ferry": FERRY}, "required": ["ferry"]}

    assert graded(server, schema, XML, "xml") == 1.0


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE f [<!ENTITY a "b">]><f>&a;</f>',
        '<!DOCTYPE f SYSTEM "file:///etc/passwd"><f/>',
        "<f>&unknown;</f>",
        "<f></g>",
        "<f/><f/>",
        "<a>" * 101 + "</a>" * 101,
    ],
)
def test_xml_with_declarations_or_without_form_is_refused(text: str) -> None:
    with pytest.raises(NoDocument):
        value(text, "xml", FERRY)


def test_csv_is_read_as_its_schema_would_have_it() -> None:
    text = 'stop,depth,open,note\r\n"Norr, by",,true,\nTall Point,2.5,FALSE,3\n'

    assert value(text, "csv", LIST_OF_STOPS) == [
        {"stop": "Norr, by", "depth": None, "open": True},
        {"stop": "Tall Point", "depth": 2.5, "open": False, "note": 3},
    ]


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("stop,depth,open\nNorrby,3,true\n", 1.0),
        ("stop,depth,open\n", 1.0),
        ("open,stop,depth\ntrue,Norrby,3", 1.0),
        ("stop,depth,open\nNorrby,3,perhaps\n", 0.0),
        ("stop,depth\nNorrby,3\n", 0.0),
        ("stop,depth,open\nNorrby,3\n", 0.0),
        ("stop,depth,open,open\nNorrby,3,true,true\n", 0.0),
        ('stop,depth,open\n"Norrby,3,true\n', 0.0),
        ("```csv\nstop,depth,open\nNorrby,3,true\n```", 0.0),
    ],
)
def test_csv_is_validated_record_by_record(
    server: ResourcesServer, text: str, reward: float
) -> None:
    assert graded(server, LIST_OF_STOPS, text, "csv") == reward


def test_a_schema_that_wants_one_object_takes_one_record_of_csv(server: ResourcesServer) -> None:
    schema = LIST_OF_STOPS["items"]

    assert graded(server, schema, "stop,depth,open\nNorrby,3,true\n", "csv") == 1.0
    assert graded(server, schema, "stop,depth,open\na,3,true\nb,3,true\n", "csv") == 0.0


def test_moments_of_toml_are_texts(server: ResourcesServer) -> None:
    schema = {"properties": {"day": {"const": "2024-01-31"}, "at": {"type": "string"}}}

    assert graded(server, schema, "day = 2024-01-31\nat = 2024-01-31T10:00:00Z", "toml") == 1.0


CALL = row(
    FERRY,
    response_mode="tool_call",
    tool_name="record",
    tool_payload_key="ferry",
    tool_choice="auto",
)


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ([called("record", json.dumps({"ferry": GOLD}))], 1.0),
        ([called("record", json.dumps({"ferry": GOLD})), answered("ok"), said("Done.")], 1.0),
        ([called("other", json.dumps({"ferry": GOLD}))], 0.0),
        ([called("record", json.dumps(GOLD))], 0.0),
        ([called("record", json.dumps({"ferry": GOLD, "bridge": {}}))], 0.0),
        ([called("record", json.dumps({"ferry": json.dumps(GOLD)}))], 0.0),
        ([called("record", json.dumps({"ferry": GOLD})), called("other", "{}", "d")], 0.0),
        ([called("record", '{"ferry":')], 0.0),
        ([called("record", "[" * 5000)], 0.0),
        ([said(json.dumps({"ferry": GOLD}))], 0.0),
        ([], 0.0),
    ],
)
def test_where_a_call_is_asked_for_one_right_call_is_worth_one(
    server: ResourcesServer, output: list[dict[str, Any]], reward: float
) -> None:
    assert verify(server, CALL, *output)["reward"] == reward


def test_without_a_payload_key_the_arguments_are_the_answer(server: ResourcesServer) -> None:
    direct = {**CALL, "tool_payload_key": None}

    assert verify(server, direct, called("record", json.dumps(GOLD)))["reward"] == 1.0


def test_any_tool_can_be_called_and_tells_nothing(server: ResourcesServer) -> None:
    reply = asyncio.run(call_asgi(server.asgi_app(), "POST", "/record", body=b"{}"))

    assert (reply.status, json.loads(reply.body)) == (200, {"status": "received"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON object"),
        ('{"type": "objekt"}', "/type"),
        ('{"pattern": "("}', "/pattern"),
        ('{"$ref": "http://127.0.0.1:9/x.json"}', "are not fetched"),
        ('{"$ref": "file:///etc/passwd"}', "are not fetched"),
        ('{"$ref": "#/nowhere"}', "nowhere"),
        ('{"$schema": "http://example.com/own"}', "own"),
    ],
)
def test_a_schema_that_cannot_be_used_is_the_rows_fault(
    server: ResourcesServer, schema: str, message: str
) -> None:
    status, body = post_verify(server, {"schema_str": schema}, said("{}"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert message in body["error"]["message"]


@pytest.mark.parametrize("fields", [{}, {"schema_str": "{}", "schema_type": "ini"}])
def test_a_row_without_schema_or_with_an_unknown_notation_is_at_fault(
    server: ResourcesServer, fields: dict[str, str]
) -> None:
    status, body = post_verify(server, fields, said("{}"))

    assert (status, body["error"]["type"]) == (422, "data_error")


DOUBLING = {
    "oneOf": [
        {"properties": {"c": {"$ref": "#"}}, "required": ["y"]},
        {"properties": {"c": {"$ref": "#"}}, "required": ["z"]},
    ]
}
LOOKING_AROUND = {"type": "string", "pattern": r"^(a|a)*(?=b)\1$"}


def test_a_schema_that_looks_around_still_validates(server: ResourcesServer) -> None:
    schema = {"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]+$"}

    assert [graded(server, schema, text) for text in ('"a1"', '"ab"')] == [1.0, 0.0]


def test_a_schema_that_backtracks_forever_is_stopped(server: ResourcesServer) -> None:
    assert graded(server, LOOKING_AROUND, json.dumps("a" * 60)) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "notation_and_text",
    [
        ("json", '{"c":' * 60 + "{}" + "}" * 60),
        ("toml", "".join(f"[[a.b{'.c' * 90}]]\n" for _ in range(100_000))),
    ],
)
def test_documents_that_would_take_forever_are_stopped(
    server: ResourcesServer, notation_and_text: tuple[str, str]
) -> None:
    notation, text = notation_and_text

    result = verify(server, row(DOUBLING, notation), said(text))

    assert result["reward"] == 0.0
    assert re.match("it takes more than|it ends its reader", result["schema_problem"])


MANY_WORDS = {"items": {"enum": [f"word {number}" for number in range(20_000)]}}


def test_only_the_first_error_of_an_answer_is_looked_for() -> None:
    schema = Schema(MANY_WORDS)

    assert schema.problem([0] * 1_500)
    assert growth(lambda length: schema.problem([0] * length), 1, 1_500) < 100


async def longest_wait(server: ResourcesServer, sent: bytes) -> float:
    """Seconds for which the event loop stood still while a request was answered."""
    request = asyncio.create_task(call_asgi(server.asgi_app(), "POST", "/verify", body=sent))
    longest = 0.0
    while not request.done():
        started = time.perf_counter()
        await asyncio.sleep(0.01)
        longest = max(longest, time.perf_counter() - started)
    assert (await request).status == 200
    return longest


def nested_branches(levels: int) -> dict[str, Any]:
    """A schema each of whose eight branches a list of lists looks right for, until its end."""
    if levels == 0:
        return {"type": "string"}
    return {"anyOf": [{"type": "array", "items": nested_branches(levels - 1)}] * 8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (nested_branches(3), json.dumps([[[0] * 11] * 11] * 11)),
        (DOUBLING, '{"c":' * 60 + "{}" + "}" * 60),
    ],
)
def test_the_event_loop_goes_on_while_an_answer_is_validated(
    server: ResourcesServer, schema: Any, text: str
) -> None:
    params = {"input": [{"role": "user", "content": "?"}]}
    body = {**row(schema), "responses_create_params": params, "response": response(said(text))}

    assert asyncio.run(longest_wait(server, encode_json(body))) < 1.5


def test_a_long_list_is_read_in_a_time_that_suits_its_length() -> None:
    def read(rows: int) -> int:
        text = "stop,depth,open,note\n" + "Norr,2.5,true,3\n" * rows
        return len(value(text, "csv", LIST_OF_STOPS))

    assert read(20_000) == 20_000
    assert growth(read, 1_000, 20_000) < 100


LONG = 300_000
HOSTILE = [
    "[" * LONG,
    "{" * LONG,
    '{"a":' * LONG,
    "<a>" * LONG,
    "<" * LONG,
    "<a " + " ".join(f"b{n}='1'" for n in range(LONG // 9)) + "/>",
    "- " * LONG,
    "? " * LONG,
    "a: " * LONG,
    '"' + "\\" * LONG,
    '"' * LONG,
    "," * LONG,
    "\n" * LONG + "x",
    " " * LONG + "x",
    "&a " * LONG,
    "9" * LONG,
    bytes(range(256)).decode("latin-1") * (LONG // 256),
    "[" + "1," * LONG + "1]",
]


@pytest.mark.parametrize("notation", ["json", "yaml", "xml", "csv"])
def test_no_text_keeps_a_reader_busy(notation: Any) -> None:
    slow = {}
    for text in HOSTILE:
        started = time.thread_time()
        with suppress(NoDocument):
            read_document(text, notation, Shape(FERRY))
        spent = time.thread_time() - started
        if spent > 5:
            slow[text[:20]] = spent

    assert slow == {}


@given(
    st.text(st.sampled_from("a:-[]{},<>/\"'\n &*!|#=.1\\"), max_size=60),
    st.sampled_from(["json", "yaml", "xml", "csv"]),
)
def test_every_text_is_read_or_refused(text: str, notation: Any) -> None:
    with suppress(NoDocument):
        assert read_document(text, notation, Shape(FERRY))


def test_depth_has_a_limit_in_every_notation() -> None:
    nested: Any = 0
    for _ in range(101):
        nested = [nested]

    with pytest.raises(NoDocument, match="100 levels"):
        check_size(nested)


def test_the_example_rows_can_be_won(server: ResourcesServer) -> None:
    ferry = '{"name":"Alma","built":1987,"cars":40,"in_winter":false,"stops":["Norrby"]}'
    xml = (
        "<ferry><name>Alma</name><built>1987</built><cars>40</cars>"
        "<in_winter>false</in_winter><stops>Norrby</stops></ferry>"
    )
    answers = [
        said(ferry),
        said(ferry.replace(",", ", ").replace('":', '": ')),
        said(xml),
        said("ferry,stop\nAlma,Norrby"),
        called("record_ferry", f'{{"record":{ferry}}}'),
    ]

    rows = example_rows("structured_outputs")
    results = [verify(server, r, a) for r, a in zip(rows, answers, strict=True)]

    assert [result["reward"] for result in results] == [1.0] * 5

"""The class form of an environment: rows, parameters, settings, components, services."""

import asyncio
import functools
import gzip
import json
import math
import random
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from author_servers import TASK, ask, error_of, nobody, server_of, turn
from packers import zstd
from palestra import Environment, ToolError, call, environment, tool
from palestra.errors import CallError, ConfigError, InputDataError, RowIdentity
from palestra.fleet import load_module
from palestra.schema import FunctionCall, OutputMessage
from palestra.server import EnvironmentConfig, EnvironmentDefinition, server_class_of
from palestra.transport import CallContext, calling

ROWS = [{"stock": {"apple": 3}, "wanted": {"apple": 2}}]


class Shelf(Environment):
    """Bring a shelf into the wanted state."""

    data: Any = ROWS
    prompt = "It holds {stock}."
    weights = {"state": 2.0}  # noqa: RUF012
    difficulty: int = 3
    names: list[str] = ["a"]  # noqa: RUF012

    def start(self, task: Mapping[str, Any]) -> None:
        self.stock = dict(task["stock"])

    @tool
    def take(self, name: str, count: int = 1) -> dict[str, int]:
        """Take things."""
        if self.stock.get(name, 0) < count:
            raise ToolError(f"there are {self.stock.get(name, 0)} of {name}")
        self.stock[name] -= count
        return self.stock

    def verify(self, answer: str, task: Mapping[str, Any]) -> dict[str, float]:
        return {"state": self.stock == task["wanted"], "polite": 0.5 * ("please" in answer)}


def defined(cls: Any, **settings: Any) -> EnvironmentDefinition:
    return EnvironmentDefinition.of(cls, settings=settings)


def with_verify(function: Any, **members: Any) -> type[Environment]:
    """A class whose `verify` is `function`."""
    return type(
        "Made", (Environment,), {"data": ROWS, "prompt": "?", "verify": function, **members}
    )


def rewarded(cls: Any, text: str = "4", **row: Any) -> dict[str, Any]:
    reply = ask(server_of(server_class_of(defined(cls))), "/verify", turn(text, **row))
    body: dict[str, Any] = orjson.loads(reply.body)
    assert reply.status == 200, body
    return body


async def in_a_session(cls: Any, *calls: tuple[str, dict[str, Any]], **row: Any) -> list[Any]:
    """The answers of a server's endpoints to calls in one session, after its seeding."""
    server = server_class_of(defined(cls))(
        config=EnvironmentConfig(name="e"), server_client=nobody()
    )
    answers = []
    for path, body in (("/seed_session", {**TASK, **row}), *calls):
        endpoint = server.typed_endpoint(path)
        assert endpoint is not None
        answers.append(await endpoint.invoke(body, session_id="s"))
    await server.shut_down()
    return answers


def test_a_rollout_has_an_object_whose_attributes_are_its_state() -> None:
    _, taken, verdict = asyncio.run(
        in_a_session(
            Shelf, ("/take", {"name": "apple"}), ("/verify", turn("Done.", **ROWS[0])), **ROWS[0]
        )
    )

    assert json.loads(taken) == {"apple": 2}
    assert (verdict.reward, verdict.reward_components) == (2.0, {"state": 1.0, "polite": 0.0})


def test_a_rejected_call_is_read_by_the_model() -> None:
    _, refused = asyncio.run(in_a_session(Shelf, ("/take", {"name": "pear"}), **ROWS[0]))

    assert json.loads(refused) == {"error": "there are 0 of pear"}


def test_rows_have_the_prompt_and_the_tools() -> None:
    [row] = defined(Shelf).rows()

    params = row["responses_create_params"]
    assert params["input"] == [{"role": "user", "content": "It holds {'apple': 3}."}]
    assert params["tools"][0]["parameters"]["required"] == ["name"]
    assert row["wanted"] == {"apple": 2}


def test_the_task_is_read_only() -> None:
    def verify(self: Any, task: Any) -> float:
        task["stock"]["apple"] = 0
        return 1.0

    reply = ask(
        server_of(server_class_of(defined(with_verify(verify)))), "/verify", turn(**ROWS[0])
    )

    assert "the task is read-only" in error_of(reply)["message"]


def test_a_field_that_is_changed_is_a_copy() -> None:
    def verify(self: Any, stock: dict[str, int]) -> float:
        stock.clear()
        return 1.0

    assert rewarded(with_verify(verify), **ROWS[0])["stock"] == {"apple": 3}


@pytest.mark.parametrize("name", ["start", "reply", "verify", "gold", "messages"])
def test_a_parameter_that_nothing_fills_is_found_before_the_run(name: str) -> None:
    def asks(self: Any, stok: Any) -> Any:
        return 1.0

    cls = with_verify(lambda self: 1.0, **{name: asks})

    with pytest.raises(
        InputDataError, match=r"asks for 'stok', which no row has; did you mean 'st"
    ):
        list(defined(cls).rows())


def test_start_has_no_answer() -> None:
    cls = with_verify(lambda self: 1.0, start=lambda self, answer: None)

    with pytest.raises(InputDataError, match="asks for 'answer'"):
        list(defined(cls).rows())


def test_a_component_named_reward_is_the_reward() -> None:
    result = rewarded(with_verify(lambda self: {"reward": 0.25, "format": True}))

    assert (result["reward"], result["reward_components"]) == (0.25, {"format": 1.0})


def test_components_of_numpy_count() -> None:
    result = rewarded(with_verify(lambda self: {"a": np.float32(0.5), "b": np.bool_(True)}))

    assert result["reward"] == 1.5


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5")])
def test_rewards_and_components_of_exact_numbers_count(number: Any) -> None:
    assert rewarded(with_verify(lambda self: number))["reward"] == 0.5
    assert rewarded(with_verify(lambda self: {"a": number}))["reward_components"] == {"a": 0.5}


@pytest.mark.parametrize("number", [Decimal("nan"), Decimal("snan"), Decimal("1e400")])
def test_an_exact_number_that_is_no_finite_float_is_no_reward(number: Any) -> None:
    cls = with_verify(lambda self: {"a": number})
    error = error_of(ask(server_of(server_class_of(defined(cls))), "/verify", turn()))

    assert error["type"] == "verifier_error"
    assert "which is not a reward" in error["message"]


@pytest.mark.parametrize("name", ["", " ", 1, None])
def test_a_component_without_a_text_as_its_name_is_a_verifier_error(name: Any) -> None:
    cls = with_verify(lambda self: {name: 1.0})
    error = error_of(ask(server_of(server_class_of(defined(cls))), "/verify", turn()))

    assert error["type"] == "verifier_error"
    assert f"returned a component named {name!r}" in error["message"]


def test_a_generator_is_named_as_no_reward() -> None:
    cls = with_verify(lambda self: (part for part in (1.0,)))
    error = error_of(ask(server_of(server_class_of(defined(cls))), "/verify", turn()))

    assert error["message"] == "env/verify returned a generator, which is not a reward"


@pytest.mark.parametrize("parts", [(1e308, 1e308), (1e308, -1e308)])
def test_components_whose_weighted_sum_is_not_finite_are_a_verifier_error(
    parts: tuple[float, float],
) -> None:
    cls = with_verify(lambda self: dict(zip("ab", parts, strict=True)), weights={"a": 9, "b": 9})
    error = error_of(ask(server_of(server_class_of(defined(cls))), "/verify", turn()))

    assert error["type"] == "verifier_error"
    assert "weighted sum is not a finite number" in error["message"]


@pytest.mark.parametrize("value", [None, "1", float("nan"), 10**400, {}])
def test_a_component_that_is_no_number_is_named(value: Any) -> None:
    cls = with_verify(lambda self: {"good": value} if value != {} else {})
    reply = ask(server_of(server_class_of(defined(cls))), "/verify", turn())

    assert error_of(reply)["type"] == "verifier_error"
    assert (
        "'good'" in error_of(reply)["message"] or "names no component" in error_of(reply)["message"]
    )


def test_settings_are_converted_to_their_types() -> None:
    env = defined(Shelf, difficulty="5", names=["x"])

    assert env.settings == {"difficulty": 5, "names": ["x"]}
    assert env.cls.difficulty == 5  # type: ignore[attr-defined]
    assert Shelf.difficulty == 3


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="has no setting 'dificulty'; did you mean 'difficulty'"):
        defined(Shelf, dificulty=5)


def test_a_setting_of_a_function_is_refused_with_its_file_and_what_to_write() -> None:
    @environment(data=[])
    def verify(answer: str) -> float:
        return float(bool(answer))

    with pytest.raises(
        ConfigError, match=f"{Path(__file__).name}: verify has no setting"
    ) as raised:
        EnvironmentDefinition.of(verify, settings={"difficulty": 3})

    assert "write a class" in raised.value.hint


def test_a_setting_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="difficulty of Shelf should be a whole number, got 'hard'"
    ):
        defined(Shelf, difficulty="hard")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nan", "should be finite, got 'nan'"),
        (math.inf, "should be finite, got inf"),
        (True, "should be a number, got True"),
    ],
)
def test_a_number_of_a_setting_is_finite_and_no_boolean(value: Any, reason: str) -> None:
    class Discounted(Shelf):
        discount: float | None = 0.1

    with pytest.raises(ConfigError, match=f"discount of Discounted {reason}"):
        defined(Discounted, discount=value)


def test_the_numbers_in_a_setting_are_finite() -> None:
    class Weighted(Shelf):
        parts: dict[str, list[float]] = {}  # noqa: RUF012

    with pytest.raises(ConfigError, match="parts of Weighted should be finite"):
        defined(Weighted, parts={"a": [1.0, math.nan]})


def test_annotated_state_without_a_value_is_no_setting() -> None:
    class Stateful(Shelf):
        stock: dict[str, int]
        _hidden: int = 1

    assert defined(Stateful).settings.keys() == {"difficulty", "names"}


def test_data_may_be_a_method_that_reads_settings() -> None:
    class Made(Shelf):
        def data(self) -> Any:
            for number in range(self.difficulty):
                yield {"stock": {}, "wanted": {}, "n": number}

    assert [row["n"] for row in defined(Made, difficulty=2).rows()] == [0, 1]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_data_may_be_a_file_beside_the_environment(tmp_path: Path, kind: str, packing: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = tmp_path / f"rows{kind}"
    rows = [{"word": "a"}, {"word": "ü"}]
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), plain)
    texts = {
        ".jsonl": "\ufeff" + "".join(json.dumps(row) + "\n" for row in rows),
        ".json": json.dumps(rows),
        ".csv": "word\na\nü\n",
        ".tsv": "word\na\nü\n",
    }
    if kind in texts:
        plain.write_text(texts[kind], encoding="utf-8")
    packers = {"": bytes, ".gz": gzip.compress, ".zst": zstd.compress}
    (tmp_path / f"rows{kind}{packing}").write_bytes(packers[packing](plain.read_bytes()))

    cls = with_verify(lambda self: 1.0, data=f"rows{kind}{packing}", prompt="{word}")
    made = EnvironmentDefinition.of(cls, folder=tmp_path).rows()

    assert [row["word"] for row in made] == ["a", "ü"]


def test_data_may_be_a_glob_that_begins_at_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "tasks [1]"
    folder.mkdir()
    for word in "ba":
        (folder / f"{word}.jsonl").write_text(json.dumps({"word": word}) + "\n")
    cls = with_verify(lambda self: 1.0, data="*.jsonl", prompt="{word}")

    rows = EnvironmentDefinition.of(cls, folder=folder).rows()

    assert [row["word"] for row in rows] == ["a", "b"]


def test_an_error_names_the_file_of_a_glob_and_the_line(tmp_path: Path) -> None:
    for word in "ab":
        (tmp_path / f"{word}.jsonl").write_text(json.dumps({word: 1}) + "\n")
    cls = with_verify(lambda self: 1.0, data="*.jsonl", prompt="{a}")

    with pytest.raises(InputDataError) as caught:
        list(EnvironmentDefinition.of(cls, folder=tmp_path).rows())

    assert f"line 1 of {tmp_path / 'b.jsonl'}" in caught.value.message


def test_a_glob_of_data_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    cls = with_verify(lambda self: 1.0, data="rows/*.jsonl", prompt="{word}")

    with pytest.raises(InputDataError) as caught:
        list(EnvironmentDefinition.of(cls, folder=tmp_path).rows())

    assert "rows/*.jsonl matches no file" in caught.value.message


def test_rows_without_a_prompt_bring_their_own() -> None:
    own = {"responses_create_params": {"input": "2 + 2 = ?", "temperature": 0.5}, "n": 1}
    cls = with_verify(lambda self: 1.0, data=[own], prompt="")

    assert list(defined(cls).rows()) == [own]


def test_rows_of_an_earlier_run_get_todays_prompt() -> None:
    stored = {
        "responses_create_params": {"input": "before", "temperature": 0.5},
        "word": "now",
        "reward": 1.0,
        "_ng_task_index": 3,
        "agent_ref": {"name": "other"},
    }
    cls = with_verify(lambda self: 1.0, prompt="{word}")

    [row] = defined(cls).rows([stored])

    message = {"role": "user", "content": "now"}
    assert row == {
        "responses_create_params": {"input": [message], "temperature": 0.5},
        "word": "now",
    }


def test_a_prompt_with_json_in_it_advises_two_braces() -> None:
    cls = with_verify(lambda self: 1.0, prompt='Answer as {"name": "..."}: {stock}')

    with pytest.raises(InputDataError) as caught:
        list(defined(cls).rows())
    assert "written twice: {{ or }}" in caught.value.hint


def test_messages_are_made_by_a_method() -> None:
    def messages(self: Any, task: Any) -> Any:
        return [
            {"role": "user", "content": str(task["stock"])},
            {"role": "assistant", "content": "."},
        ]

    [row] = defined(with_verify(lambda self: 1.0, messages=messages, system="S {stock}")).rows()

    roles = [message["role"] for message in row["responses_create_params"]["input"]]
    assert roles == ["system", "user", "assistant"]


def test_gold_may_call_tools() -> None:
    cls = with_verify(
        lambda self: 1.0, gold=lambda self, task: [call("take", name="apple"), "Done."]
    )

    gold = defined(cls).gold(ROWS[0])

    assert gold is not None
    assert [type(item) for item in gold.output] == [FunctionCall, OutputMessage]


def test_random_numbers_are_those_of_the_rollout() -> None:
    cls = with_verify(lambda self: self.rng.random())

    def drawn(rollout: int, run: str = "r") -> dict[str, Any]:
        with calling(CallContext(RowIdentity(0, rollout, run=run))):
            return rewarded(cls)

    assert drawn(0)["reward"] == drawn(0)["reward"]
    assert len({drawn(0)["reward"], drawn(1)["reward"], drawn(0, "other")["reward"]}) == 3
    seed = drawn(0)["rng_seed"]
    assert random.Random(seed).random() == drawn(0)["reward"]
    assert rewarded(cls, rng_seed=seed)["reward"] == drawn(0)["reward"]


def test_an_environment_without_verify_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no verify"):
        defined(type("Bare", (Environment,), {}))


def right(self: Environment, answer: str) -> float:
    return float(answer == "4")


class Rubric(Environment):
    verify = [right]  # noqa: RUF012  # what a user of rubrics writes


def test_a_list_of_functions_as_verify_is_refused_as_a_list() -> None:
    with pytest.raises(ConfigError, match=r"verify of \w+ must be a method, not a list") as raised:
        defined(Rubric)

    assert 'return {"correct": …, "format": …}' in raised.value.hint


class Untyped(Shelf):
    @tool
    def put(self, name, count=1, to=None, **more):  # type: ignore[no-untyped-def]
        """Put things on the shelf."""


def test_a_tool_with_a_parameter_without_a_type_is_refused_with_its_line_and_what_to_write() -> (
    None
):
    with pytest.raises(ConfigError) as raised:
        defined(Untyped)

    line = Untyped.put.__code__.co_firstlineno
    assert f"{Path(__file__).name}:{line}: the tool put has no type for name, count, to" in str(
        raised.value
    )
    assert "name: str, count: int = 1, to: str | None = None" in raised.value.hint


class Spread(Shelf):
    @tool
    def put(self, *names: str, **more: int) -> None:
        """Put things on the shelf."""


def test_a_tool_whose_parameters_have_no_names_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        defined(Spread)

    assert (
        "the tool put takes *names and **more, which the model cannot fill" in caught.value.message
    )


def test_a_tool_without_a_docstring_is_a_warning_with_its_line() -> None:
    @tool
    def look(self: Any) -> str:
        return ""

    [warning] = defined(type("Looked", (Shelf,), {"look": look})).warnings()

    line = look.__code__.co_firstlineno
    assert f"{Path(__file__).name}:{line}: the tool look has no docstring" in warning


def test_a_tool_with_a_docstring_has_no_warning() -> None:
    assert defined(Shelf).warnings() == ()


def reply_with_an_end(self: Any, answer: str) -> str | None:
    return None if "4" in answer else f"{answer}?"


def reply_that_falls_through(self: Any, answer: str) -> Any:  # noqa: RET503  # as authors write it
    if answer:
        return "again"


def reply_without_an_end(self: Any, answer: str) -> str:
    if "4" in answer:
        return "right"
    return f"not {answer}: " + self.task["q"]


def ending_warnings(reply: Any, **members: Any) -> tuple[str, ...]:
    return defined(with_verify(lambda self: 1.0, reply=reply, **members)).warnings()


def test_a_conversation_without_an_end_is_a_warning_with_its_line() -> None:
    [warning] = ending_warnings(reply_without_an_end)

    line = reply_without_an_end.__code__.co_firstlineno
    assert f"{Path(__file__).name}:{line}: reply never returns None" in warning
    assert "max_turns" in warning


@pytest.mark.parametrize("reply", [reply_with_an_end, reply_that_falls_through])
def test_a_conversation_that_may_end_has_no_warning(reply: Any) -> None:
    assert ending_warnings(reply) == ()


def test_a_conversation_with_a_limit_has_no_warning() -> None:
    assert ending_warnings(reply_without_an_end, max_turns=3) == ()


def test_a_tool_with_the_name_of_a_path_is_refused() -> None:
    @tool
    def verify_(self: Any) -> str:
        return ""

    with pytest.raises(ConfigError, match="a tool cannot be named step"):
        defined(with_verify(lambda self: 1.0, step=verify_))


def test_an_object_made_by_hand_needs_no_server() -> None:
    shelf = Shelf()
    shelf.start(ROWS[0])

    assert shelf.take("apple", count=3) == {"apple": 0}
    assert 0 <= shelf.rng.random() < 1


def test_data_with_a_field_of_the_verdict_is_refused() -> None:
    cls = with_verify(lambda self: 1.0, data=[{"reward": 1.0}])

    with pytest.raises(InputDataError, match="have a field 'reward'"):
        list(defined(cls).rows())


def test_a_tool_in_a_lost_session_is_no_reward_of_zero() -> None:
    item = {"type": "function_call", "name": "take", "arguments": "{}", "call_id": "1"}
    body = turn("Done.", **ROWS[0])
    body["response"]["output"].insert(0, item)
    reply = ask(server_of(server_class_of(defined(Shelf))), "/verify", body)

    assert reply.status >= 400
    assert "the state of this rollout does not exist" in error_of(reply)["message"]


MISSPELT = """
from palestra import Environment

class Sums(Environment):
    {line} = None
    def verify(self):
        return 1
"""


@pytest.mark.parametrize(
    "name", ["dataset", "rewards", "max_turn", "weigths", "reward_rule", "sandbx", "mesages"]
)
def test_a_misspelt_attribute_is_refused_with_the_nearest(name: str, tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(MISSPELT.format(line=name))
    with pytest.raises(ConfigError, match=rf"Sums\.{name}; did you mean"):
        defined(load_module(file).Sums)


@pytest.mark.parametrize(
    ("name", "instead"), [("tools", "@tool"), ("rubric", "`verify`"), ("parser", "`verify`")]
)
def test_an_attribute_that_another_library_reads_is_refused_with_what_to_write(
    name: str, instead: str, tmp_path: Path
) -> None:
    file = tmp_path / "sums.py"
    file.write_text(MISSPELT.format(line=name))
    with pytest.raises(ConfigError, match=rf"nothing reads Sums\.{name}") as raised:
        defined(load_module(file).Sums)

    assert instead in raised.value.hint


def test_an_empty_file_beside_reads_no_attribute(tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    load_module(tmp_path / "empty.py")
    (tmp_path / "sums.py").write_text(MISSPELT.format(line="max_turn"))

    with pytest.raises(ConfigError, match="did you mean 'max_turns'"):
        defined(load_module(tmp_path / "sums.py").Sums)


@pytest.mark.parametrize("name", ["strat", "gald", "repli"])
def test_a_method_with_one_wrong_letter_is_refused_with_the_one_it_resembles(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "sums.py"
    file.write_text(f"{MISSPELT.format(line='prompt')}\n    def {name}(self):\n        pass\n")
    with pytest.raises(ConfigError, match=rf"Sums\.{name}; did you mean"):
        defined(load_module(file).Sums)


def test_a_tool_may_have_the_name_that_another_library_gives_an_attribute(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    tool = "prompt = None\n    @tool\n    def rewards(self) -> str:\n        'Rewards.'"
    file.write_text(
        "from palestra import tool\n" + MISSPELT.format(line=f"{tool}\n        return ''\n    data")
    )

    assert defined(load_module(file).Sums).has("verify")


def test_another_name_of_an_attribute_that_is_set_is_the_authors_own(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(MISSPELT.format(line="data = [{}]\n    dataset"))

    assert defined(load_module(file).Sums).has("verify")


def test_an_attribute_is_no_setting_and_the_hint_says_where_it_is_written() -> None:
    with pytest.raises(ConfigError, match="max_turns is an attribute of Shelf") as raised:
        defined(Shelf, max_turns=9)

    assert "max_turns = …" in raised.value.hint


def test_an_error_of_start_names_start() -> None:
    cls = with_verify(lambda self: 1.0, start=lambda self: {}["nope"])

    reply = ask(server_of(server_class_of(defined(cls))), "/seed_session", TASK)

    assert error_of(reply)["message"] == "env/seed_session (start) raised KeyError: 'nope'"


@pytest.mark.parametrize("returned", [True, ["Again."], {"content": "Again."}])
def test_a_reply_that_is_no_text_is_an_error_of_reply(returned: Any) -> None:
    cls = with_verify(lambda self: 1.0, reply=lambda self: returned)

    with pytest.raises(Exception, match=r"\(reply\) returned"):
        asyncio.run(in_a_session(cls, ("/step", turn("?"))))


async def late() -> str:
    return "Again."


@pytest.mark.parametrize(
    ("name", "label"), [("start", r"seed_session \(start\)"), ("reply", r"step \(reply\)")]
)
def test_a_call_that_a_method_returns_without_await_is_an_error_of_it(
    name: str, label: str
) -> None:
    async def method(self: Any) -> Any:
        return functions[0]()

    functions = [late]
    cls = with_verify(lambda self: 1.0, **{name: method})

    with pytest.raises(CallError, match=rf"{label} returned a call of late that was") as raised:
        asyncio.run(in_a_session(cls, ("/step", turn("?"))))

    assert raised.value.hint.startswith("write async def, and await the call")


def test_a_call_that_gold_returns_is_an_error_of_gold() -> None:
    functions = [late]
    definition = defined(with_verify(lambda self: 1.0, gold=lambda self: functions[0]()))

    with pytest.raises(InputDataError, match=r"gold of .* returned a call of late") as raised:
        definition.gold(ROWS[0])

    assert "without async" in raised.value.hint


class Paced(Environment):
    """A class with an attribute of its own, which its code reads."""

    data: Any = ROWS
    prompt = "?"
    max_turnes = 4

    def verify(self) -> float:
        return self.max_turnes / 4


def test_an_attribute_that_the_class_reads_is_its_own_however_similar() -> None:
    assert rewarded(Paced)["reward"] == 1


def test_a_weight_whose_name_is_a_slip_of_a_component_is_refused() -> None:
    cls = with_verify(
        lambda self: {"correct": 1, "short": 1}, weights={"corect": 0.8, "short": 0.2}
    )
    reply = ask(server_of(server_class_of(defined(cls))), "/verify", turn("4"))
    assert reply.status == 500
    assert "did you mean 'correct'?" in error_of(reply)["message"]


@pytest.mark.parametrize(
    ("returned", "weight"), [("tidi", "tidy"), ("tydy", "tidy"), ("Tidy", "tidy")]
)
def test_a_weight_of_one_word_with_another_letter_or_case_is_a_slip(
    returned: str, weight: str
) -> None:
    cls = with_verify(lambda self: {"right": 1, returned: 1}, weights={"right": 0.8, weight: 0.2})

    reply = ask(server_of(server_class_of(defined(cls))), "/verify", turn("4"))

    assert reply.status == 500
    assert f"did you mean {returned!r}?" in error_of(reply)["message"]


def annotated(self: Any) -> float:
    return self.unknown()


def compared(self: Any, answer: str) -> Any:
    return 0.5 if not answer else answer == "4"


@pytest.mark.parametrize("verify", [annotated, compared, lambda self, answer: answer == "4"])
def test_weights_are_refused_where_the_code_of_verify_returns_a_number(verify: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        defined(with_verify(verify, weights={"correct": 0.8}))

    assert "has weights" in caught.value.message
    assert "'correct'" in caught.value.hint


def as_components(verify: Any) -> Any:
    @functools.wraps(verify)
    def components(self: Any) -> Any:
        return {"correct": verify(self)}

    return components


@as_components
def decorated(self: Any) -> float:
    return 1.0


def summed(self: Any) -> Any:
    return Counter(correct=1) + Counter(self.unknown_names)


def described(self: Any) -> {str: float}:  # type: ignore[valid-type]
    return {"correct": 1.0}


@pytest.mark.parametrize("verify", [decorated, summed, described])
def test_weights_are_accepted_where_verify_may_return_components(verify: Any) -> None:
    cls = with_verify(verify, weights={"correct": 0.5}, unknown_names=())

    assert rewarded(cls)["reward"] == 0.5


def early(self: Any, answer: str) -> Any:
    score = 0.0
    if not answer:
        return score
    return dict.fromkeys(["correct"], 1)


def test_a_number_that_verify_returns_beside_components_is_a_reward() -> None:
    cls = with_verify(early, weights={"correct": 0.5})

    assert rewarded(cls, text="")["reward"] == 0.0
    assert rewarded(cls, text="4")["reward"] == 0.5


@pytest.mark.parametrize("other", ["f1_micro", "recall_b", "test_2", "tests"])
def test_a_weight_of_another_component_is_no_slip(other: str) -> None:
    returned = {"f1_micro": "f1_macro", "recall_b": "recall_a"}.get(other, "test_1")
    cls = with_verify(lambda self: {returned: 1}, weights={other: 0.5})
    assert ask(server_of(server_class_of(defined(cls))), "/verify", turn("4")).status == 200


def test_a_weight_that_had_no_effect_in_a_run_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cls = with_verify(lambda self: nobody(), weights={"a": 1, "b": 1})
    server = server_of(server_class_of(defined(cls)))

    for components in ({"a": 1.0}, {"b": 1.0}), ({"a": 1.0}, {"a": 0.0}):
        rows = [
            {"_ng_task_index": task, "_ng_rollout_index": 0, "reward": 1.0, "reward_components": x}
            for task, x in enumerate(components)
        ]
        assert ask(server, "/aggregate_metrics", {"verify_responses": rows}).status == 200
    [record] = caplog.records
    assert "weights has 'b'" in record.getMessage()


def test_a_row_has_the_names_of_weights_without_a_component() -> None:
    row = {"_ng_task_index": 0}
    cls = with_verify(lambda self: {"a": 1.0, "reward": 0.5}, weights={"a": 1, "b": 1, "reward": 1})

    assert rewarded(cls, **row)["unused_weights"] == ["b"]
    assert "unused_weights" not in rewarded(
        with_verify(lambda self: {"a": 1.0}, weights={"a": 1}), **row
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, ""),  # as with `skip_verification`
        ({"extracted_answer": "4"}, "no row of this run has components"),
    ],
)
def test_weights_without_any_component_are_a_warning_where_rows_were_verified(
    fields: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    cls = with_verify(lambda self: nobody(), weights={"a": 1})
    server = server_of(server_class_of(defined(cls)))
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, **fields}

    assert ask(server, "/aggregate_metrics", {"verify_responses": [row]}).status == 200

    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == bool(message)
    assert message in "".join(warnings)


@pytest.mark.parametrize(
    ("components", "weights"),
    [
        ({"short": 1}, {"short": 1, "shorter": 2}),  # a component that this row lacks
        ({"short": 1, "correct": 1}, {"short": 1}),  # without a weight: 1
        ({"test_2": 1}, {"test_1": 1}),  # another number
    ],
)
def test_a_row_may_lack_a_component_that_has_a_weight(
    components: dict[str, int], weights: dict[str, float]
) -> None:
    body = rewarded(with_verify(lambda self: components, weights=weights))
    assert body["reward_components"] == components


def test_a_reply_that_is_no_text_has_the_line_of_reply() -> None:
    def reply(self: Any) -> bool:
        return True

    cls = with_verify(lambda self: 1.0, reply=reply)

    with pytest.raises(CallError) as raised:
        asyncio.run(in_a_session(cls, ("/step", turn("?"))))

    line = reply.__code__.co_firstlineno
    assert raised.value.evidence.traceback == f"{__file__}:{line} in reply"


@pytest.mark.parametrize(
    ("field", "cure"),
    [
        ("answer", 'self.task["answer"]'),
        ("wanted", 'self.task["wanted"], or a parameter wanted of start'),
    ],
)
def test_a_field_that_is_looked_for_on_the_object_is_said_to_be_in_the_task(
    field: str, cure: str
) -> None:
    cls = with_verify(lambda self: 1.0, start=lambda self: getattr(self, field))
    row = {**TASK, "answer": "4", "wanted": "4"}

    reply = ask(server_of(server_class_of(defined(cls))), "/seed_session", row)

    assert error_of(reply)["message"].endswith(f"the field of the row is {cure}")


def test_an_attribute_that_is_no_field_gets_no_such_advice() -> None:
    cls = with_verify(lambda self: 1.0, start=lambda self: self.nope)

    reply = ask(server_of(server_class_of(defined(cls))), "/seed_session", TASK)

    assert error_of(reply)["message"].endswith("has no attribute 'nope'")

"""Values that attributes of an environment cannot have, refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from palestra import Environment, RewardRules, environment
from palestra.errors import ConfigError, InputDataError
from palestra.fleet import load_environment
from palestra.server import EnvironmentDefinition

ROWS = [{"question": "2 + 2 = ?", "expected": "4"}]


def with_attributes(**members: Any) -> type[Environment]:
    made = {"data": ROWS, "prompt": "{question}", "verify": lambda self, answer: 1.0, **members}
    return type("Sums", (Environment,), made)


def refused(subject: Any) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        EnvironmentDefinition.of(subject, name="sums")
    return raised.value


@pytest.mark.parametrize("attribute", ["prompt", "system"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([{"role": "user", "content": "{question}"}], "list"),
        (("{question}",), "tuple"),
        ({"role": "user"}, "dict"),
        ([], "list"),
        (5, "int"),
        (b"{question}", "bytes"),
        (Path("p.txt"), "PosixPath"),
        (lambda self, task: task["question"], "a function"),
    ],
)
def test_a_template_that_is_no_text_is_refused(attribute: str, value: Any, kind: str) -> None:
    error = refused(with_attributes(**{attribute: value}))

    assert f"sums: {attribute} must be a text, not {kind}" in error.message


@pytest.mark.parametrize(
    ("prompt", "cure"),
    [
        (["{question}"], "def messages(self, task)"),
        (lambda self, task: "?", "def messages(self, task)"),
        (Path("texts/p.txt"), "(Path(__file__).parent / 'texts/p.txt').read_text()"),
        (5, 'prompt = "{question}"'),
    ],
)
def test_the_hint_says_how_to_write_such_a_prompt(prompt: Any, cure: str) -> None:
    assert cure in refused(with_attributes(prompt=prompt)).hint


def test_a_prompt_of_the_function_form_that_is_no_text_is_refused() -> None:
    @environment(data=ROWS, prompt=["{question}"])  # type: ignore[arg-type]
    def verify(answer: str) -> bool:
        return bool(answer)

    assert "prompt must be a text, not list" in refused(verify).message


def test_no_prompt_is_no_wrong_prompt() -> None:
    members = {"prompt": None, "messages": lambda self: [{"role": "user", "content": "?"}]}

    assert len(list(EnvironmentDefinition.of(with_attributes(**members)).rows())) == 1


@pytest.mark.parametrize("gold", [4, ["4"]])
def test_a_gold_that_is_neither_text_nor_method_is_refused(gold: Any) -> None:
    assert "gold must be a text or a method, not" in refused(with_attributes(gold=gold)).message


@pytest.mark.parametrize("isolated", ["no", 0, None])
def test_isolated_is_true_or_false(isolated: Any) -> None:
    error = refused(with_attributes(isolated=isolated))

    assert error.message == f"sums: isolated must be True or False, not {isolated!r}"


@pytest.mark.parametrize(
    ("rules", "cure"),
    [
        ({"highest": 2}, "RewardRules(highest=2)"),
        ((0, 2), "RewardRules(lowest=0, highest=2)"),
        (3, "RewardRules(highest=3)"),
        (RewardRules, "RewardRules(highest=2)"),
        ({}, "RewardRules(highest=2)"),
    ],
)
def test_reward_rules_of_another_type_are_refused_with_what_to_write(rules: Any, cure: str) -> None:
    error = refused(with_attributes(reward_rules=rules))

    assert error.message.startswith("sums: reward_rules must be RewardRules, not ")
    assert f"reward_rules = {cure}," in error.hint


def test_reward_rules_of_the_function_form_are_not_dropped() -> None:
    @environment(data=ROWS, prompt="{question}", reward_rules={})  # type: ignore[arg-type]
    def verify(answer: str) -> bool:
        return bool(answer)

    assert "reward_rules must be RewardRules" in refused(verify).message


def in_file(
    tmp_path: Path, body: str, *, data: str = 'data = [{"question": "2", "target": "4"}]'
) -> Path:
    """A file with a class whose third line is `data` and whose fourth line begins `body`."""
    path = tmp_path / "sums.py"
    path.write_text(
        f"from palestra import Environment\nclass Sums(Environment):\n    {data}\n{body}"
    )
    return path


VERIFY = "    def verify(self, answer): return answer == '4'\n"


@pytest.mark.parametrize(
    "body",
    [
        f'    prompt = "{{qestion}}"\n{VERIFY}',
        f'    prompt = "{{}}"\n{VERIFY}',
        f"    prompt = 5\n{VERIFY}",
        f'    max_turns = 0\n    prompt = "{{question}}"\n{VERIFY}',
        f'    weights = {{"correct": 1}}\n{VERIFY}',
        f"    weights = 3\n{VERIFY}",
        f'    gold = "{{taget}}"\n    prompt = "{{question}}"\n{VERIFY}',
        f"    reward_rules = {{}}\n{VERIFY}",
        f"    isolated = 1\n{VERIFY}",
        f"    max_turn = 3\n{VERIFY}",
        f"    rubric = 3\n{VERIFY}",
        "    def verify(self, answer, tagret): return 1.0\n",
        f"    def start(self, tsk): self.x = 1\n{VERIFY}",
        f"    def messages(self, task): return task['nope']\n{VERIFY}",
        f"    def messages(self, task): return 'hello'\n{VERIFY}",
    ],
)
def test_an_error_of_a_class_begins_with_the_line_of_what_is_wrong(
    tmp_path: Path, body: str
) -> None:
    path = in_file(tmp_path, body)

    with pytest.raises((ConfigError, InputDataError)) as raised:
        list(load_environment(path).rows())

    assert raised.value.message.startswith(f"{path}:4: ")


@pytest.mark.parametrize(
    "data",
    [
        'dataset = [{"question": "2"}]',
        "data = 5",
        "data = [5]",
        'data = [{"x": {1}}]',
        'data = "no.csv"',
    ],
)
def test_an_error_of_data_begins_with_its_line(tmp_path: Path, data: str) -> None:
    path = in_file(tmp_path, f'    prompt = "2 + 2"\n{VERIFY}', data=data)

    with pytest.raises((ConfigError, InputDataError)) as raised:
        list(load_environment(path).rows())

    assert raised.value.message.startswith(f"{path}:3: ")


def test_an_error_of_a_class_without_verify_begins_with_the_line_of_the_class(
    tmp_path: Path,
) -> None:
    path = in_file(tmp_path, '    prompt = "2 + 2"\n')

    with pytest.raises(ConfigError) as raised:
        load_environment(path)

    assert raised.value.message.startswith(f"{path}:2: ")


def test_an_error_of_an_inherited_attribute_begins_with_its_line_in_the_base(
    tmp_path: Path,
) -> None:
    path = in_file(tmp_path, f"    max_turns = 0\n{VERIFY}class More(Sums):\n    prompt = '2'\n")

    with pytest.raises(ConfigError) as raised:
        load_environment(path, "More")

    assert raised.value.message.startswith(f"{path}:4: ")


def test_a_variable_of_a_method_is_not_taken_for_the_attribute(tmp_path: Path) -> None:
    body = "    def start(self):\n        max_turns = 4\n    max_turns = 0\n"
    path = in_file(tmp_path, body + VERIFY)

    with pytest.raises(ConfigError) as raised:
        load_environment(path)

    assert raised.value.message.startswith(f"{path}:6: ")


@pytest.mark.parametrize(
    ("argument", "parameters", "line"),
    [
        ('prompt="{qestion}"', "answer", 4),
        ('gold="{taget}"', "answer", 4),
        ('weights={"correct": 1}', "answer", 4),
        ('prompt="{question}"', "answer, tagret", 2),
    ],
)
def test_an_error_of_a_decorated_function_begins_with_the_line_of_its_argument(
    tmp_path: Path, argument: str, parameters: str, line: int
) -> None:
    path = tmp_path / "sums.py"
    path.write_text(
        'from palestra import environment\n@environment(\n    data=[{"question": "2"}],\n'
        f"    {argument},\n)\ndef verify({parameters}): return answer == '4'\n"
    )

    with pytest.raises((ConfigError, InputDataError)) as raised:
        list(load_environment(path).rows())

    assert raised.value.message.startswith(f"{path}:{line}: ")


def test_the_advice_for_a_file_with_two_environments_keeps_its_folder(tmp_path: Path) -> None:
    path = in_file(tmp_path, f"{VERIFY}class More(Environment):\n    prompt = '2'\n{VERIFY}")

    with pytest.raises(ConfigError) as raised:
        load_environment(path)

    assert raised.value.hint == f"name one of them: {path}:Sums"


@pytest.mark.parametrize(
    "line", ["import palestra.nope", "import sumpy_", "from palestra import Enviroment"]
)
def test_an_error_of_an_import_has_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "sums.py"
    path.write_text(f"import json\n{line}\n")

    with pytest.raises(ConfigError) as raised:
        load_environment(path)

    assert raised.value.message.startswith(f"{path}:2 ")

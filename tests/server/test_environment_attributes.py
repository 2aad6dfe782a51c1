"""Values that attributes of an environment cannot have, refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from palestra import Environment, RewardRules, environment
from palestra.errors import ConfigError
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

    assert error.message.startswith(f"sums: {attribute} must be a text, not {kind}")


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

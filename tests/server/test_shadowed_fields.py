"""The warning of a field of the rows that a parameter of the same name hides."""

from pathlib import Path
from typing import Any

import pytest
from environment_classes import ROWS, warnings_of, with_methods

from palestra import Environment, environment

HERE = Path(__file__).name


def test_a_field_that_the_models_text_replaces_is_a_warning_with_the_cure() -> None:
    cls = with_methods(verify=lambda self, response, answer: answer in str(response))

    [warning] = warnings_of(cls)

    assert HERE in warning
    assert "a field 'answer', but the parameter answer of verify is the text" in warning
    assert 'task["answer"]' in warning


def test_a_function_is_warned_of_a_replaced_field_too() -> None:
    @environment(data=ROWS, prompt="{question}")
    def verify(answer: str) -> bool:
        return bool(answer)

    assert len(warnings_of(verify)) == 1


def test_a_column_with_the_name_of_the_trajectory_is_a_warning() -> None:
    cls = with_methods(verify=lambda self, response: 1.0)

    [warning] = warnings_of(cls, [{"question": "?", "response": "4"}])

    assert "rename the field" in warning


@pytest.mark.parametrize(
    "verify",
    [
        lambda self, answer, task: answer == task["answer"],
        lambda self, answer: answer == self.task["answer"],
        lambda self, task: bool(task["wanted"]),
        lambda self, wanted: bool(wanted),
    ],
)
def test_code_that_reads_the_field_or_has_no_such_parameter_is_not_warned(verify: Any) -> None:
    assert warnings_of(with_methods(verify=verify)) == []


def test_the_trajectory_of_an_earlier_run_is_no_field_of_the_data() -> None:
    cls = with_methods(verify=lambda self, response: 1.0)

    assert warnings_of(cls, [{**ROWS[0], "response": {"output": []}}]) == []


def expected_of(task: Any) -> Any:
    return task["answer"]


class Helped(Environment):
    """Each method reads the field `answer` in another place than `verify`."""

    data: Any = ROWS
    prompt = "{question}"

    def start(self, task: Any) -> None:
        self.expected = task["answer"]

    @property
    def of_row(self) -> Any:
        return self.task["answer"]

    def expected_answer(self) -> Any:
        return self.of_row

    def verify(self, answer: str) -> bool:
        return bool(answer)


def handed_on(self: Any, answer: str, task: Any) -> bool:
    return bool(answer == expected_of(task))


def handed_on_by_name(self: Any, answer: str, task: Any) -> bool:
    return bool(answer == expected_of(task=task))


def handed_on_from_object(self: Any, answer: str) -> bool:
    return bool(answer == expected_of(self.task))


def object_handed_on(self: Any, answer: str) -> bool:
    return bool(answer == expected_of(vars(self)))


def spread_on(self: Any, answer: str, task: Any) -> bool:
    return bool(answer == expected_of({**task}))


def stored(self: Any, answer: str, task: Any) -> bool:
    row = task
    return bool(answer == expected_of(row))


def named_elsewhere(self: Any, answer: str, task: Any) -> bool:
    return bool(answer == task[self.field])


def iterated(self: Any, answer: str, task: Any) -> bool:
    return answer in task.values()


def handed_to_base(self: Any, answer: str) -> bool:
    return bool(super(Helped, self).verify(answer))


def through_a_method(self: Any, answer: str) -> bool:
    return bool(answer == self.expected_answer())


def through_the_state(self: Any, answer: str) -> bool:
    return bool(answer == self.expected)


def handed_on_from_this(this: Any, answer: str) -> bool:
    return bool(answer == expected_of(this.task))


KNOWING = [
    handed_on_from_this,
    handed_on,
    handed_on_by_name,
    handed_on_from_object,
    object_handed_on,
    spread_on,
    stored,
    named_elsewhere,
    iterated,
    handed_to_base,
    through_a_method,
    through_the_state,
]


@pytest.mark.parametrize("verify", KNOWING)
def test_code_whose_helper_may_read_the_field_is_not_warned(verify: Any) -> None:
    assert warnings_of(type("Sums", (Helped,), {"verify": verify})) == []


def reads_another_field(self: Any, answer: str, task: Any) -> bool:
    return bool(answer) and bool(task["question"]) and "wanted" in task


def gets_another_field(self: Any, answer: str) -> bool:
    return bool(answer) and bool(self.task.get("question"))


def measures_the_row(self: Any, answer: str, task: Any) -> bool:
    return len(task) > len(answer)


def asks_a_method_that_reads_nothing(self: Any, answer: str) -> bool:
    return bool(self.is_long(answer))


@pytest.mark.parametrize(
    "verify",
    [reads_another_field, gets_another_field, measures_the_row, asks_a_method_that_reads_nothing],
)
def test_code_that_keeps_the_row_and_reads_other_fields_is_warned(verify: Any) -> None:
    cls = type("Sums", (Helped,), {"verify": verify, "is_long": lambda self, text: len(text) > 9})

    [warning] = warnings_of(cls, [{"question": "?", "answer": "4"}])

    assert "a field 'answer'" in warning


def compares_the_row(self: Any, task: Any) -> bool:
    return bool(task == "sums")


def strips_the_row(self: Any, task: Any) -> bool:
    return bool(task.strip())


def converts_the_row(self: Any, task: Any) -> bool:
    return bool(str(task))


@pytest.mark.parametrize("verify", [compares_the_row, strips_the_row, converts_the_row])
def test_code_that_takes_the_row_for_its_field_is_warned(verify: Any) -> None:
    cls = type("Sums", (Helped,), {"verify": verify, "start": None})

    [warning] = warnings_of(cls)

    assert "parameter task of verify is the whole row" in warning


def test_code_that_cannot_be_read_is_not_warned() -> None:
    namespace: dict[str, Any] = {}
    exec("def verify(self, answer, task): return helper(task)", namespace)

    assert warnings_of(with_methods(verify=namespace["verify"])) == []

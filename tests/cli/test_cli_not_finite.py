"""Numbers that are none: `nan` passes every comparison with a limit, and `inf` every upper one."""

import math
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

import palestra.settings
from palestra.cli.gym.grammar import UsageError, parse
from palestra.errors import ConfigError
from palestra.programs import command_at
from palestra.settings import CollectArgs, PatienceArgs, Settings, args_from


def number_settings() -> Iterator[tuple[type[Settings], str]]:
    """Every setting of a command that is a number with a fraction."""
    for name in dir(palestra.settings):
        model = getattr(palestra.settings, name)
        if isinstance(model, type) and issubclass(model, Settings):
            for field, info in model.model_fields.items():
                if float in {info.annotation, *typing.get_args(info.annotation)}:
                    yield model, field


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", "inf"])
@pytest.mark.parametrize(("model", "name"), [*number_settings()])
def test_every_number_of_a_command_is_finite(model: type[Settings], name: str, value: Any) -> None:
    if name == "patience" and value in {math.inf, "inf"}:
        return  # this one means: never

    with pytest.raises(ValidationError) as caught:
        model.model_validate({name: value})

    assert name in {error["loc"][0] for error in caught.value.errors()}


@pytest.mark.parametrize("value", ["inf", math.inf, "none", 0])
def test_patience_without_an_end_is_no_limit(value: Any) -> None:
    assert PatienceArgs(patience=value).patience is None


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"temperature": math.inf}, "temperature"),
        ({"top_k": math.nan}, "top_k"),
        ({"extra": {"a": [1, math.nan]}}, "extra.a.1"),
    ],
)
def test_every_number_of_a_request_is_finite(parameters: dict[str, Any], key: str) -> None:
    settings = {"output_jsonl_fpath": "r.jsonl", "input_jsonl_fpath": "t.jsonl"}

    with pytest.raises(ConfigError, match="should be a finite number") as caught:
        args_from(CollectArgs, {**settings, "responses_create_params": parameters})

    assert caught.value.message.startswith(f"responses_create_params.{key}: ")


def test_a_range_of_rewards_has_two_numbers() -> None:
    command = command_at("env", "init")
    assert command is not None

    with pytest.raises(UsageError, match="--reward-range takes numbers, got nan"):
        parse(command, ["--resources-server", "sums", "--reward-range", "nan", "1"])

"""What a server publishes of a request model refuses nothing that the model takes."""

import enum
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    ValidationError,
    create_model,
)
from typing_extensions import TypedDict

from palestra.datasets.request_models import DoorKeeper, RowEndpoint, published_body
from palestra.server.published import published_schema


class Colour(enum.Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> "Colour":
        return cls.RED


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    inner: int = Field(alias="innerValue")


class Stripping(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    text: str = Field(max_length=1)


class Pair(TypedDict, total=False):
    a: int
    b: str


class Left(BaseModel):
    a: Literal["l"] = "l"
    b: int = 0


class Right(BaseModel):
    a: Literal["r"] = "r"
    b: str = ""


def side(value: Any) -> str:
    return "left" if isinstance(value, dict) and value.get("a") == "l" else "right"


class Loose(BaseModel):
    b: float = 0


FIELDS: dict[str, Any] = {
    "any_int": int,
    "bounded_int": Annotated[int, Field(ge=1, le=3)],
    "bounded_float": Annotated[float, Field(gt=0, multiple_of=0.1)],
    "flag": bool,
    "short": Annotated[str, Field(max_length=1)],
    "stripped": Annotated[str, Field(max_length=1), Field(min_length=1)],
    "pattern": Annotated[str, Field(pattern="^a$")],
    "maybe": int | None,
    "either": int | list[str],
    "literal": Literal["a", "l"],
    "numbers": Literal[1, 2],
    "few": Annotated[list[int], Field(max_length=1)],
    "two": tuple[int, str],
    "many": tuple[int, ...],
    "unlike": set[int],
    "frozen": Annotated[frozenset[str], Field(max_length=1)],
    "by_text": dict[str, int],
    "by_number": Annotated[dict[int, int], Field(max_length=1)],
    "when": datetime,
    "during": timedelta,
    "colour": Colour,
    "by_name": ByName,
    "stripping": Stripping,
    "pair": Pair,
    "tagged": Annotated[Left | Right, Field(discriminator="a")],
    "by_function": Annotated[
        Annotated[Left, Tag("left")] | Annotated[Loose, Tag("right")], Discriminator(side)
    ],
    "root": RootModel[list[int]],
    "aliased": Annotated[set[int], Field(alias="otherName")],
    "chosen": Annotated[int, Field(validation_alias=AliasChoices("a", AliasPath("b", 0)))],
}
NAMES = ["a", "b", "innerValue", "inner", "text", "otherName"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.sampled_from([0.1, 0.3, 1.0, 2.5, "a", "l", "r", " a ", "1", "01", "true", "a\n", "red"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(NAMES), below),
    max_leaves=4,
)


def model_of(kind: Any, config: ConfigDict) -> type[BaseModel]:
    return create_model("Body", __config__=config, field=(kind, ...))


CONFIGS = (
    ConfigDict(),
    ConfigDict(str_strip_whitespace=True),
    ConfigDict(coerce_numbers_to_str=True),
    ConfigDict(populate_by_name=True),
)
MODELS = {
    f"{name}-{number}": model_of(kind, config)
    for name, kind in FIELDS.items()
    for number, config in enumerate(CONFIGS)
}


def refuses(model: type[BaseModel], row: Any) -> bool:
    schema = published_body(published_schema(model), {})
    return schema is not None and not DoorKeeper([RowEndpoint("env", "/verify", schema)]).admits(
        row
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@given(value=VALUES, key=st.sampled_from(["field", *NAMES]))
def test_what_a_model_takes_is_never_refused(name: str, value: Any, key: str) -> None:
    row = {key: value}
    try:
        MODELS[name].model_validate(row)
    except ValidationError:
        return
    assert not refuses(MODELS[name], row)


SPELT = st.text(max_size=4) | st.sampled_from(
    [
        "5",
        "5.0",
        " 5 ",
        "+5",
        "1_0",
        "1e3",
        "nan",
        "-inf",
        "Infinity",
        "YES",
        "off",
        "three",
        "\u0665",
    ]
)
SCALARS = (
    SPELT
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.integers(10**18, 10**40)
)
SCALAR_MODELS = {
    kind: model_of(kind, ConfigDict()) for kind in (int, float, bool, int | None, list[float])
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCALAR_MODELS, ids=str)
@given(value=SCALARS)
def test_a_scalar_that_a_model_takes_is_never_refused(kind: Any, value: Any) -> None:
    row = {"field": [value] if kind == list[float] else value}
    try:
        SCALAR_MODELS[kind].model_validate(row)
    except ValidationError:
        # And of texts none that it does not take gets through.
        assert not isinstance(value, str) or refuses(SCALAR_MODELS[kind], row)
        return
    assert not refuses(SCALAR_MODELS[kind], row)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("unlike", [1, 1]),
        ("frozen", ["a", "a"]),
        ("when", 5),
        ("during", 5),
        ("colour", "none"),
        ("by_name", {"inner": 1}),
        ("stripping", {"text": " a "}),
    ],
)
def test_what_json_schema_has_no_words_for_is_left_to_the_server(field: str, value: Any) -> None:
    model = MODELS[f"{field}-0"]
    model.model_validate({"field": value})

    assert not refuses(model, {"field": value})


def test_a_stripped_or_coerced_string_is_left_to_the_server() -> None:
    assert not refuses(MODELS["short-1"], {"field": " a "})
    assert not refuses(MODELS["short-2"], {"field": 1})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("any_int", [1]),
        ("any_int", "three"),
        ("any_int", 2.5),
        ("any_int", ""),
        ("flag", "maybe"),
        ("maybe", "5.5"),
        ("pair", {"a": "x"}),
        ("literal", "b"),
        ("few", [1, 2]),
        ("pair", {"a": []}),
        ("tagged", 1),
    ],
)
def test_what_json_schema_describes_is_still_checked(field: str, value: Any) -> None:
    assert refuses(MODELS[f"{field}-0"], {"field": value})

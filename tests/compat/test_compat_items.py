"""Plain dicts, nearly all that comes, are recognized at once; any other mapping is its equal."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from palestra.compat.nemo_gym.openai_utils import NeMoGymResponseOutputItem
from palestra.schema import InputItem, OutputItem


class OtherDict(dict[str, Any]):
    """A dict that is not exactly a dict."""


TYPES = ["message", "function_call", "function_call_output", "reasoning", "web_search_call"]
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["output_text", "refusal", "input_text", "other"])},
    optional={"text": st.text(max_size=3), "refusal": st.text(max_size=3)},
)
CONTENT = st.text(max_size=3) | st.lists(PART, max_size=2)
ODD = st.none() | st.integers(0, 1) | st.lists(st.none(), max_size=1)
ITEM = st.fixed_dictionaries(
    {"id": st.just("i1")},  # without it, each object gets an id of its own
    optional={
        "type": st.sampled_from(TYPES) | ODD,
        "role": st.sampled_from(["assistant", "user"]) | ODD,
        "content": CONTENT,
        "output": CONTENT,
        "summary": st.lists(st.just({"text": "t"}), max_size=1),
        "name": st.text(max_size=3),
        "arguments": st.just("{}"),
        "call_id": st.just("c1"),
        "status": st.sampled_from(["completed", "odd"]),
        "prompt_token_ids": st.none() | st.just([1]),
        "generation_token_ids": st.just([2]),
        "generation_log_probs": st.just([-0.5]),
        "extra": st.integers(),
    },
)
UNIONS = [TypeAdapter[Any](union) for union in (NeMoGymResponseOutputItem, InputItem, OutputItem)]


def outcome(union: TypeAdapter[Any], item: Any) -> Any:
    """The object's class, its fields and those that were set; the problems when there is none."""
    try:
        checked: BaseModel = union.validate_python(item)
    except ValidationError as error:
        return [(problem["type"], problem["loc"]) for problem in error.errors()]
    dump, set_fields = checked.model_dump(), checked.model_dump(exclude_unset=True)
    return type(checked), dump, set_fields, checked.model_fields_set


@given(ITEM)
def test_a_plain_dict_becomes_what_any_other_mapping_becomes(item: dict[str, Any]) -> None:
    for union in UNIONS:
        assert outcome(union, item) == outcome(union, OtherDict(item))

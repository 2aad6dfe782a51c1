import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.resources_servers.latex_text import Box, closed_boxes, last_box


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} then \boxed {2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{a \boxed{b} c}", "b"),
        (r"\boxed{1} and \boxed{", "1"),
        (r"\boxed{\{1\}}", r"\{1\}"),
        (r"\\boxed{1}", None),
        (r"\fbox{1}", None),
        ("} 1", None),
    ],
)
def test_the_last_closed_box_counts_and_of_nested_ones_the_innermost(
    text: str, content: str | None
) -> None:
    assert last_box(text) == content


def test_a_frame_is_a_box_where_it_is_said_so() -> None:
    assert last_box(r"\boxed{1} \fbox{2}", framed=True) == "2"


def test_boxes_come_with_their_places() -> None:
    assert list(closed_boxes(r"x\boxed{1}, \boxed{\boxed{2}}")) == [
        Box("1", 1, 10),
        Box("2", 19, 28),
    ]


@given(st.lists(st.sampled_from(["\\boxed{", "{", "}", "\\", "a"])).map("".join))
def test_a_box_holds_what_stands_between_its_braces(text: str) -> None:
    for box in closed_boxes(text):
        assert text[box.start : box.end] == f"\\boxed{{{box.content}}}"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["\\boxed{", "\\boxed ", "{", "}", "\\", "\\boxed{}"])
def test_boxes_are_found_in_a_time_in_proportion_to_the_text(piece: str) -> None:
    assert last_box(piece * 200_000) in {None, ""}

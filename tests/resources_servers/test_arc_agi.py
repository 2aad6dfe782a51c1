import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import agrees, example_rows, post_verify, recorded, said, server_of, verify

from palestra.resources_servers.arc_agi.app import ArcServer, grid_of

ROW = {"expected_output": [[1, 2], [3, 4]]}


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        (r"so \boxed{[[1,2],[3,4]]}", [[1, 2], [3, 4]]),
        ("\\boxed{\n[[1, 2],\n [3, 4]]\n}.", [[1, 2], [3, 4]]),
        (r"[[9]] was wrong: \boxed{[[1,2]]} is right, not [[7]]", [[1, 2]]),
        (r"\boxed{[[0]]} no, \boxed{[[1,2]]}", [[1, 2]]),
        (r"\boxed{\text{see above}} for [[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("```\n[[1,2],[3,4]]\n```", [[1, 2], [3, 4]]),
        ("[[1,2],[3,4]]\nThe first row is [[1,2]], as asked.", [[1, 2], [3, 4]]),
        ("[[1,2],[3,4]], not [[5,6],[7,8]]", [[5, 6], [7, 8]]),
        ("Of [[1,2],[3,4]] there remains:\n\n`[[1,2]]`.\n", [[1, 2]]),
        ("It is [[1,2]] [[3,4]] here", [[3, 4]]),
        ("[[1,2],[3,4],]", None),
        (r"\boxed{[[1,2],[3]]}", None),
        (r"\boxed{[[10]]}", None),
        (r"\boxed{[[-1]]}", None),
        (r"\boxed{[[]]}", None),
        (r"\boxed{1 2 3 4}", None),
        ("", None),
    ],
)
def test_the_grid_is_the_last_one_written(text: str, grid: list[list[int]] | None) -> None:
    assert grid_of(text) == grid


def test_a_grid_of_more_than_thirty_cells_a_side_is_none() -> None:
    assert grid_of(str([[1] * 30] * 30)) == [[1] * 30] * 30
    assert grid_of(str([[1] * 31])) is None
    assert grid_of(str([[1]] * 31)) is None


@given(st.text(st.sampled_from("[],0123 \\boxed{}\n"), max_size=200))
def test_any_text_gives_a_grid_or_nothing(text: str) -> None:
    found = grid_of(text)

    assert found is None or all(0 <= cell <= 9 for row in found for cell in row)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["[" * 500_000, "[[1]," * 200_000, "[[" + "[1], " * 200_000])
def test_a_megabyte_of_brackets_is_read_in_time(text: str) -> None:
    assert grid_of(text) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["[[1]] " * 150_000, "\\boxed{[[1]]}" * 100_000])
def test_a_megabyte_of_grids_is_read_in_time(text: str) -> None:
    assert grid_of(text) == [[1]]


def test_every_cell_must_be_right() -> None:
    server = server_of(ArcServer)

    assert verify(server, ROW, said(r"\boxed{[[1,2],[3,4]]}"))["reward"] == 1.0
    assert verify(server, ROW, said(r"\boxed{[[1,2],[3,5]]}"))["reward"] == 0.0
    assert verify(server, ROW)["extraction_successful"] is False


def test_a_row_without_colours_is_refused() -> None:
    status, _ = post_verify(server_of(ArcServer), {"expected_output": [[12]]}, said("[[12]]"))

    assert status == 422


def test_example_tasks_are_solved_by_their_own_output() -> None:
    server = server_of(ArcServer)

    for row in example_rows("arc_agi"):
        assert verify(server, row, said(f"\\boxed{{{row['expected_output']}}}"))["reward"] == 1.0


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(ArcServer)

    assert all(agrees(server, row, result) for row, result in recorded("arc_agi"))

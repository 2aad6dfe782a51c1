"""The check of the project's language: what it finds, and what it leaves alone."""

import ast
import sys

import pytest
from documents import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts"))
from check_language import (
    long_commands,
    long_paragraphs,
    short_docstrings,
    vague_names,
)

pytestmark = pytest.mark.source


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def load():\n    found = 1", ["the variable found"]),
        ("def load(given):\n    pass", ["the parameter given"]),
        ("def load(*, _told):\n    pass", ["the parameter _told"]),
        ("def _shown():\n    pass", ["the function _shown"]),
        ("def load():\n    return [one for one in ()]", ["the variable one"]),
        ("def read():\n    matches = 1", []),
        ("def load(found_rows):\n    pass", []),
    ],
)
def test_a_name_that_says_nothing_of_its_content_is_found(source: str, names: list[str]) -> None:
    assert [what for _, what in vague_names(ast.parse(source))] == names


@pytest.mark.parametrize(("text", "found"), [("Yes.", True), ("Seconds of CPU.", False)])
def test_a_docstring_of_one_word_is_found(text: str, found: bool) -> None:
    tree = ast.parse(f'def load():\n    """{text}"""')

    assert bool(list(short_docstrings(tree))) is found


def test_a_long_paragraph_is_found_with_its_first_line() -> None:
    text = "# Title\n\n" + "word " * 60 + "\n" + "word " * 61 + "\n\nshort\n"

    assert list(long_paragraphs(text)) == [(3, "a paragraph of 121 words")]


@pytest.mark.parametrize(
    "text",
    [
        "- " + "word " * 100 + "\n- " + "word " * 100,
        "| " + "word " * 200 + "|",
        "```text\n" + "word " * 200 + "\n```",
        "word " * 120,
    ],
)
def test_items_tables_and_code_are_no_long_paragraphs(text: str) -> None:
    assert list(long_paragraphs(text)) == []


def test_a_command_that_is_wider_than_a_terminal_is_found() -> None:
    text = "```console\n$ " + "x" * 119 + "\n```\n```text\n$ " + "x" * 200 + "\n```\n"

    assert list(long_commands(text)) == [(2, "a command of 121 characters")]

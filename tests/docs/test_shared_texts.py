"""A text of messages and help that many places need stands in one place of the source."""

import pytest
from documents import REPOSITORY

pytestmark = pytest.mark.source


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("PROVIDER:NAME", "settings/model_names.py"),
        ("is not provided by Palestra", "errors/extras.py"),
    ],
)
def test_a_text_stands_in_one_file(text: str, file: str) -> None:
    package = REPOSITORY / "src" / "palestra"

    files = [path for path in package.rglob("*.py") if text in path.read_text(encoding="utf-8")]

    assert [str(path.relative_to(package)) for path in files] == [file]

"""The examples of the guide to one-file environments are as short as it promises."""

import pytest
from documents import REPOSITORY, files

GUIDE = REPOSITORY / "docs" / "how-to" / "one-file-environments.md"
LONGEST = {
    "shelf.py": 20,  # tools and state
    "short_sums.py": 10,  # several rewards
    "security_guide.py": 15,  # Inspect AI's first task
    "boxed_sums.py": 15,  # the first environment of verifiers
}


@pytest.mark.source
@pytest.mark.parametrize("name", LONGEST)
def test_an_example_is_no_longer_than_promised(name: str) -> None:
    lines = [line for line in files(GUIDE)[name].splitlines()[1:] if line.strip()]

    assert len(lines) <= LONGEST[name]

"""Which models of a command differ from those of the running fleet."""

from typing import Any

import pytest

from palestra.api import models_differ
from palestra.config import config_from_tree


def differing(fleet: Any, command: Any) -> dict[str, str]:
    trees = [{"policy_base_url": value} for value in (fleet, command)]
    runs, planned = map(config_from_tree, trees)
    return models_differ(runs, planned)


@pytest.mark.parametrize(
    ("fleet", "command"),
    [
        ("http://x/v1", "http://x/v1/"),
        ("http://x/v1", ["http://x/v1"]),
        (["http://x/v1", "http://y/v1"], ["http://y/v1", "http://x/v1"]),
    ],
    ids=["slash", "a list of one", "another order"],
)
def test_the_same_endpoints_in_another_form_do_not_differ(fleet: Any, command: Any) -> None:
    assert differing(fleet, command) == {}


def test_the_password_of_a_different_url_is_masked() -> None:
    found = differing("http://****@x/v1", "http://user:secret-word@y/v1")

    assert "y/v1" in found["policy_base_url"]
    assert "secret-word" not in found["policy_base_url"]

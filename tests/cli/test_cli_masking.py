"""What a command logs and raises does not show the secrets of its configuration."""

import io
import logging
from collections.abc import Iterator

import pytest

from palestra.cli.console import masking
from palestra.errors import ConfigError


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The text of a handler such as a command's."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logger = logging.getLogger("palestra")
    logger.addHandler(handler)
    yield text
    logger.removeHandler(handler)


def test_log_records_of_any_depth_are_masked_while_the_body_runs(log: io.StringIO) -> None:
    logger = logging.getLogger("palestra.some.part")
    with masking(["sk-secret-1"]):
        logger.error("sent %s", {"authorization": "Bearer sk-secret-1"})
        try:
            raise KeyError("sk-secret-1")
        except KeyError:
            logger.exception("it raised")
    logger.error("afterwards %s", "sk-secret-1")
    during, _, afterwards = log.getvalue().partition("afterwards")

    assert "Bearer ****" in during
    assert "KeyError: '****'" in during
    assert "sk-secret-1" not in during
    assert "sk-secret-1" in afterwards


def test_an_error_of_the_body_is_masked() -> None:
    with pytest.raises(ConfigError, match=r"key \*\*\*\* is wrong"), masking(["sk-secret-1"]):
        raise ConfigError("key sk-secret-1 is wrong")

"""What the end of a worker means to the call that it was working on."""

import pytest

from palestra.errors import FailureKind
from palestra.serving.authors_errors import AuthorsPlace
from palestra.serving.isolation.failures import failure_of
from palestra.serving.isolation.link import Hung

PLACE = AuthorsPlace("verify", "env.py", 3)


@pytest.mark.parametrize(
    ("path", "limit_s", "kind"),
    [
        ("/verify", 5.0, FailureKind.VERIFIER),
        ("/seed_session", 5.0, FailureKind.ENVIRONMENT),
        ("/verify", 0.3, FailureKind.TIMEOUT),
        ("/seed_session", 0.3, FailureKind.TIMEOUT),
    ],
)
def test_a_call_that_began_at_the_end_of_its_rollout_blames_no_code(
    path: str, limit_s: float, kind: FailureKind
) -> None:
    assert failure_of("env", path, Hung(PLACE, limit_s)).kind is kind

"""Which worker a conversation goes to."""

import pytest

from palestra.errors import InfraError
from palestra.transport import worker_cookie, worker_url

URLS = ("http://w0", "http://w1", "http://w2")


@pytest.mark.parametrize("instance", ["env", "my env", "среда", "env_worker"])
def test_a_session_s_cookie_leads_to_its_worker(instance: str) -> None:
    cookies = {"Env___env": "signed", worker_cookie(instance): "2"}

    assert {worker_url(instance, URLS, cookies) for _ in range(20)} == {"http://w2"}


def test_another_instance_s_cookie_leads_nowhere() -> None:
    cookies = {worker_cookie("other"): "2", worker_cookie("env_worker"): "1"}

    assert {worker_url("env", URLS, cookies) for _ in range(200)} == set(URLS)


def test_without_cookies_any_worker_will_do() -> None:
    assert {worker_url("env", URLS, None) for _ in range(200)} == set(URLS)
    assert worker_url("env", URLS[:1], {worker_cookie("env"): "7"}) == "http://w0"
    assert worker_url("env", (), None) == ""


@pytest.mark.parametrize("number", ["3", "-1", "x", ""])
def test_a_worker_that_does_not_exist_is_an_infra_error(number: str) -> None:
    with pytest.raises(InfraError, match=f"belongs to worker {number} of env, which has 3 workers"):
        worker_url("env", URLS, {worker_cookie("env"): number})

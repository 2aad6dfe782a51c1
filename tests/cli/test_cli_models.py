"""`--model`: which model server an evaluation asks, and with which key."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from palestra.cli.evaluating import model_config
from palestra.errors import ConfigError

AZURE = """
policy_model:
  responses_api_models:
    azure_openai_model: {entrypoint: app.py, base_url: https://x, model: m}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "azure.yaml").write_text(AZURE)
    return tmp_path


@pytest.fixture
def locked() -> Iterator[str]:
    """The URL of an endpoint that lists one model to whoever has the key `good`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.headers.get("authorization") == "Bearer good"
            self.send_response(200 if good else 401)
            self.end_headers()
            body = {"data": [{"id": "tiny"}]} if good else {"error": {"message": "no such key"}}
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("model", [None, "policy_model"])
def test_a_policy_model_of_the_configs_is_taken_as_it_is(model: str | None) -> None:
    assert model_config(model, ["+config_paths=[azure.yaml]"]) == ([], {})


@pytest.mark.usefixtures("folder")
def test_another_instance_of_the_configs_becomes_the_policy(folder: Path) -> None:
    (folder / "other.yaml").write_text(AZURE.replace("policy_model", "other"))

    found = model_config("other", ["+config_paths=[other.yaml]"])

    assert found == ([], {"policy_model": {"_copy": "other"}})


@pytest.mark.usefixtures("folder")
def test_an_instance_that_no_config_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="nor an instance of your configs"):
        model_config("other", ["+config_paths=[azure.yaml]"])


@pytest.mark.usefixtures("folder")
def test_a_url_alone_is_shown_how_to_be_a_model() -> None:
    with pytest.raises(ConfigError) as refused:
        model_config("http://h:1/v1", [])

    assert "vllm:http://h:1/v1" in refused.value.hint


@pytest.mark.usefixtures("folder")
def test_openai_without_a_key_names_its_variable() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        model_config("openai:m", [])


def test_the_key_of_env_yaml_is_one_for_openai(folder: Path) -> None:
    (folder / "env.yaml").write_text("policy_api_key: k\n")

    assert "policy_api_key" not in model_config("openai:m", [])[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("given", ["++policy_api_key=good", "++policy_api_key=${oc.env:MINE}"])
def test_an_endpoint_is_asked_for_its_model_with_its_key(
    locked: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "good")

    assert model_config(f"vllm:{locked}", [given])[1]["policy_model_name"] == "tiny"


@pytest.mark.usefixtures("folder")
def test_an_endpoint_that_rejects_the_key_is_told_apart_from_one_without_models(
    locked: str,
) -> None:
    with pytest.raises(ConfigError, match=r"answered 401.*no such key") as refused:
        model_config(f"vllm:{locked}", [])

    assert "VLLM_API_KEY" in refused.value.hint


@pytest.mark.usefixtures("folder")
def test_an_address_without_a_scheme_is_no_url() -> None:
    with pytest.raises(ConfigError, match="holds no URL"):
        model_config("vllm:127.0.0.1:1/v1", [])

"""`PROVIDER:NAME[@URL]`: which model server it becomes, with which URL and key."""

from pathlib import Path
from typing import Any

import pytest

from dialect_server import KEY, MODEL, dialect_server
from palestra.api import ModelContext, ModelName, judge_config, model_config
from palestra.errors import ConfigError
from palestra.responses_api_models.providers import PROVIDERS, Dialect

AZURE = """
policy_model:
  responses_api_models:
    azure_openai_model: {entrypoint: app.py, base_url: https://x, model: m}
"""
KEYED = [name for name, provider in PROVIDERS.items() if provider.key_needed]
OWN = [name for name, row in PROVIDERS.items() if not row.key_needed and name != "local"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and no key in the environment."""
    monkeypatch.chdir(tmp_path)
    for provider in PROVIDERS.values():
        for name in filter(None, (provider.key_variable, provider.url_variable)):
            monkeypatch.delenv(name, raising=False)
    (tmp_path / "azure.yaml").write_text(AZURE)
    return tmp_path


def context(*overrides: str, **fields: Any) -> ModelContext:
    return ModelContext(overrides, **fields)


def refused(model: str, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        model_config(model, context(*overrides))
    return error.value


def server_of(settings: dict[str, Any], instance: str = "policy_model") -> tuple[str, Any]:
    ((name, fields),) = settings[instance]["responses_api_models"].items()
    return name, fields


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("local", ("local", "", "")),
        ("groq:openai/gpt-oss-20b", ("groq", "openai/gpt-oss-20b", "")),
        ("ollama:llama3:8b", ("ollama", "llama3:8b", "")),
        ("vllm:http://h:1/v1", ("vllm", "", "http://h:1/v1")),
        ("vllm:a/b@http://h:1/v1", ("vllm", "a/b", "http://h:1/v1")),
        ("hf:@cf/llama@https://h/v1", ("hf", "@cf/llama", "https://h/v1")),
    ],
)
def test_a_name_has_three_parts(text: str, parts: tuple[str, str, str]) -> None:
    name = ModelName.parse(text)

    assert (name.provider, name.name, name.url) == parts


@pytest.mark.parametrize("provider", KEYED)
def test_a_missing_key_names_its_variable(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    error = refused(f"{provider}:m")

    variable = PROVIDERS[provider].key_variable
    assert error.message == f"--model {provider}:m needs a key, and {variable} is not set"
    assert error.hint.startswith(f"set {variable}, or ")


@pytest.mark.parametrize("provider", [name for name in KEYED if name != "azure"])
def test_a_hosted_provider_is_asked_at_its_url_with_the_key_of_its_variable(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = PROVIDERS[provider]
    monkeypatch.setenv(row.key_variable, "sk-1")

    settings = model_config(f"{provider}:m", context())

    assert settings["policy_base_url"] == row.base_url
    assert settings["policy_api_key"] == "sk-1"
    assert settings["policy_model_name"] == "m"
    server = {
        Dialect.RESPONSES: "openai_model",
        Dialect.CHAT: "inference_provider",
        Dialect.MESSAGES: "anthropic_model",
    }[row.dialect]
    assert server_of(settings)[0] == server


@pytest.mark.parametrize("provider", OWN)
def test_a_server_of_ones_own_is_at_its_usual_port_and_needs_no_key(provider: str) -> None:
    settings = model_config(f"{provider}:m", context())

    assert settings["policy_base_url"] == PROVIDERS[provider].base_url
    assert settings["policy_api_key"] == "EMPTY"


def test_a_url_replaces_the_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")

    settings = model_config("groq:m@http://proxy/v1", context())

    assert (settings["policy_base_url"], settings["policy_model_name"]) == ("http://proxy/v1", "m")


def test_azure_is_found_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")

    settings = model_config("azure:gpt", context())

    assert settings["policy_base_url"] == "https://me.openai.azure.com"
    assert server_of(settings)[0] == "azure_openai_model"


def test_openai_is_asked_at_the_url_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    reports: list[str] = []

    settings = model_config("openai:gpt", ModelContext(report=reports.append))

    assert settings["policy_base_url"] == "https://gateway.example/v1"
    assert any("OPENAI_BASE_URL" in text for text in reports)


def test_azure_without_a_url_says_how_to_give_it() -> None:
    error = refused("azure:gpt")

    assert "has no URL" in error.message
    assert "set AZURE_OPENAI_ENDPOINT, or --model azure:NAME@https://" in error.hint


def test_openrouter_gets_reasoning_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")

    fields = server_of(model_config("openrouter:m", context()))[1]

    assert fields["uses_interleaved_reasoning"] is True


def test_a_project_adds_providers_in_env_yaml(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_KEY", "k")
    (folder / "env.yaml").write_text(
        "model_providers:\n  corp: {base_url: https://llm.corp/v1, key_variable: CORP_KEY, "
        "dialect: messages}\n"
    )

    settings = model_config("corp:m", context())

    assert settings["policy_base_url"] == "https://llm.corp/v1"
    assert settings["policy_api_key"] == "k"
    assert server_of(settings)[0] == "anthropic_model"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{base_uri: https://x}", "base_uri is no field of a row; did you mean 'base_url'"),
        ("{dialect: soap}", "model_providers.corp.dialect should be 'responses'"),
        ("{base_url: llm.corp}", "'llm.corp' is not a URL"),
        ("7", "model_providers.corp should be a mapping of fields, got 7"),
        ("{key_needed: nope}", "corp.key_needed should be true or false, got 'nope'"),
    ],
)
def test_a_wrong_row_is_named(folder: Path, row: str, says: str) -> None:
    (folder / "env.yaml").write_text(f"model_providers:\n  corp: {row}\n")

    assert says in refused("corp:m").message


def test_the_key_of_env_yaml_is_used_without_a_variable(folder: Path) -> None:
    (folder / "env.yaml").write_text("policy_api_key: k\n")

    assert "policy_api_key" not in model_config("openai:m", context())


@pytest.mark.parametrize("given", ["++policy_api_key=good", "++policy_api_key=${oc.env:MINE}"])
def test_an_endpoint_is_asked_for_its_model_with_its_key(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", KEY)
    with dialect_server("chat") as server:
        settings = model_config(f"vllm:{server.url}", context(given.replace("good", KEY)))

    assert settings["policy_model_name"] == MODEL


def test_an_endpoint_that_rejects_the_key_is_told_apart_from_one_without_models() -> None:
    with dialect_server("chat") as server:
        error = refused(f"vllm:{server.url}")

    assert "answered 401" in error.message
    assert "VLLM_API_KEY" in error.hint


def test_several_models_are_listed_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    with dialect_server("chat", models=("a", "b")) as server:
        error = refused(f"ollama:{server.url}")

    assert "serves 2 models: a, b" in error.message
    assert error.hint == f"choose one: --model ollama:a@{server.url}"


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        ("grok:m", "there is no provider 'grok'; did you mean 'groq'?", "model_providers"),
        ("gpt-5", "'gpt-5' is neither a provider's model nor", "openai:NAME"),
        ("openai/gpt-5", "'openai/gpt-5' is neither", "--model openai:gpt-5"),
        ("openai", "'openai' does not name a model", "--model openai:NAME"),
        ("openai:", "'openai:' does not name a model", "--model openai:NAME"),
        ("opnai", "'opnai' is neither", "did you mean openai:NAME?"),
        ("locla", "'locla' is neither", "did you mean local?"),
        ("http://h:1/v1", "is a URL without a provider", "--model vllm:http://h:1/v1"),
        ("localhost:8000/v1", "without a provider", "--model vllm:http://localhost:8000/v1"),
        ("node7:8000", "is a URL without a provider", "--model vllm:http://node7:8000"),
        ("vllm:127.0.0.1:1/v1", "has no valid URL", "--model vllm:http://127.0.0.1:1/v1"),
        ("vllm:m@node-1:8000", "has no valid URL", "--model vllm:m@http://node-1:8000"),
        ("vllm:http://h/v1#m", "stands before the URL", "--model vllm:m@http://h/v1"),
        ("local:big", "has no other name", "model_path=FILE.gguf"),
    ],
)
def test_a_name_that_means_nothing_is_shown_how_to_be_written(
    model: str, message: str, hint: str
) -> None:
    error = refused(model)

    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize("model", [None, "policy_model"])
def test_a_policy_model_of_the_configs_is_taken_as_it_is(model: str | None) -> None:
    assert model_config(model, context("+config_paths=[azure.yaml]")) == {}


def test_another_instance_of_the_configs_becomes_the_policy(folder: Path) -> None:
    (folder / "other.yaml").write_text(AZURE.replace("policy_model", "other"))

    settings = model_config("other", context("+config_paths=[other.yaml]"))

    assert settings == {"policy_model": {"_copy": "other"}}


def test_an_instance_that_no_config_has_is_refused() -> None:
    assert "nor an instance of your configs" in refused("oth", "+config_paths=[azure.yaml]").message


def test_without_a_model_the_small_local_one_is_used_and_said() -> None:
    lines: list[str] = []

    settings = model_config(None, context(report=lines.append))

    assert server_of(settings)[0] == "local_model"
    assert lines == [
        "no --model was passed: using the small local model, of 135 million parameters"
    ]


def test_an_endpoint_of_env_yaml_is_the_model_without_a_name(folder: Path) -> None:
    (folder / "env.yaml").write_text("policy_base_url: http://h/v1\n")

    assert server_of(model_config(None, context()))[0] == "vllm_model"


MATH = "resources_servers/equivalence_llm_judge/configs/equivalence_llm_judge.yaml"


def test_a_judge_is_a_model_of_its_own_that_the_judging_servers_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")
    asked = context(configs=[MATH], option="--judge", role="judge")

    settings, overrides = judge_config("groq:m", asked, extra=model_config("local", context()))

    assert server_of(settings, "judge_model")[1]["model"] == "${judge_model_name}"
    assert settings["judge_api_key"] == "gsk-1"
    (override,) = overrides
    assert override.startswith("++equivalence_llm_judge")
    assert override.endswith(".judge_model_server.name=judge_model")


def test_a_judge_that_nothing_asks_is_refused() -> None:
    asked = context(
        configs=["resources_servers/mcqa/configs/mcqa.yaml"], option="--judge", role="judge"
    )

    with pytest.raises(ConfigError, match="--judge local: nothing in this environment asks"):
        judge_config("local", asked, extra=model_config("local", context()))


def test_the_page_has_the_whole_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "topics" / "models.md").read_text()

    for name, row in PROVIDERS.items():
        url = " or ".join(f"`{x}`" for x in (row.base_url or "@URL", row.url_variable) if x)
        key = f"`{row.key_variable}`" + ("" if row.key_needed else ", optional")
        assert name == "local" or f"| `{name}` | {url} | {key} | `{row.dialect}` |" in page

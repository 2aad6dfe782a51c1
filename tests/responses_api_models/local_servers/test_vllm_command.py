from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers import VLLMInstallation, find_vllm
from palestra.responses_api_models.local_servers.llama_cpp import engine_order
from palestra.responses_api_models.local_servers.vllm_command import (
    HERMES_TEMPLATE,
    command,
    environment,
    tool_parser,
)
from palestra.settings import LlamaCppServer, VLLMServer

CPU = VLLMInstallation(Path("/v/python"), "0.32.0", cpu=True, takes_ids=True)
GPU = VLLMInstallation(Path("/v/python"), "0.9.1", cpu=False, takes_ids=False)


def line(server: VLLMServer, vllm: VLLMInstallation = CPU, parser: str = "hermes") -> str:
    return " ".join(command(server, vllm, parser=parser, port=18090))


def test_a_tool_parser_is_given_and_no_reasoning_parser_unless_asked_for() -> None:
    found = line(VLLMServer(model="models/smollm2"))

    assert "--enable-auto-tool-choice --tool-call-parser hermes" in found
    assert "--reasoning-parser" not in found
    assert "--served-model-name smollm2 " in found
    assert "--reasoning-parser qwen3" in line(VLLMServer(model="m", reasoning_parser="qwen3"))


def test_what_takes_token_ids_is_started_so_and_what_does_not_is_not() -> None:
    assert "--enable-scale-out" in line(VLLMServer(model="m"))
    assert "--enable-scale-out" not in line(VLLMServer(model="m"), GPU)


def test_only_a_build_for_processors_gets_their_settings() -> None:
    assert "--enforce-eager" in line(VLLMServer(model="m"))
    assert environment(VLLMServer(model="m"), CPU)["TORCHDYNAMO_DISABLE"] == "1"
    assert "--enforce-eager" not in line(VLLMServer(model="m"), GPU)
    assert environment(VLLMServer(model="m"), GPU) == {"VLLM_NO_USAGE_STATS": "1"}


def test_a_key_is_in_the_environment_and_not_in_the_command_line() -> None:
    server = VLLMServer(model="m", api_key="sk-secret")

    assert "sk-secret" not in line(server) + repr(server)
    assert environment(server, CPU)["VLLM_API_KEY"] == "sk-secret"


def test_arguments_of_the_users_come_last() -> None:
    assert line(VLLMServer(model="m", arguments=("--max-num-seqs", "4"))).endswith(
        "--max-num-seqs 4"
    )


@pytest.mark.parametrize(
    ("written", "parser"),
    [
        ("<tool_call>\n{{ call }}", "hermes"),
        ("<tool_call>\n<function={{ name }}>", "qwen3_coder"),
        ("[TOOL_CALLS] {{ calls }}", "mistral"),
    ],
)
def test_the_tool_parser_is_told_by_the_chat_template(
    tmp_path: Path, written: str, parser: str
) -> None:
    (tmp_path / "chat_template.jinja").write_text(written)

    assert tool_parser(VLLMServer(model=str(tmp_path))) == parser


def test_a_model_that_is_no_folder_here_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere"):
        tool_parser(VLLMServer(model=str(tmp_path / "nowhere")))


def test_a_template_that_writes_no_calls_needs_a_word_from_the_user(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')

    with pytest.raises(ConfigError, match="does not show which tool parser"):
        tool_parser(VLLMServer(model=str(tmp_path)))
    assert tool_parser(VLLMServer(model=str(tmp_path), tool_parser="none")) == ""
    assert tool_parser(VLLMServer(model="m", chat_template=str(HERMES_TEMPLATE))) == "hermes"


def test_a_python_without_vllm_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"there is no vLLM in {tmp_path}/python"):
        find_vllm(str(tmp_path / "python"))


def test_a_chat_template_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    model = tmp_path / "m.gguf"
    model.touch()

    with pytest.raises(ConfigError, match="there is no chat template"):
        engine_order(LlamaCppServer(model=str(model), chat_template=str(tmp_path / "none.jinja")))

"""The command line and the environment variables that start vLLM. Reads files, but has no other
effects.
"""

import json
from pathlib import Path

from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers.installed import VLLMInstallation
from palestra.settings import VLLMServer

HERMES_TEMPLATE = Path(__file__).with_name("hermes.jinja")
"""A ChatML template with tools in the Hermes format, for models whose own template ignores tools.
"""

_PARSERS = (
    ("<function=", "qwen3_coder"),
    ("<tool_call>", "hermes"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|python_tag|>", "llama3_json"),
)
"""Pairs of the mark that a chat template writes at a call, and vLLM's tool parser for it."""

_CPU = {
    # The first request for log probs would else compile C++, for minutes on a busy machine, and
    # the step that waits for it is given up, with the whole engine.
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1800",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def command(server: VLLMServer, vllm: VLLMInstallation, *, parser: str, port: int) -> list[str]:
    """Return the command line. It runs vLLM's module, because `vllm serve` needs a package named
    `vllm`.
    """
    line = [str(vllm.python), "-P", "-m", "vllm.entrypoints.openai.api_server"]
    line += ["--model", server.model, "--served-model-name", server.served_name]
    line += ["--host", server.host, "--port", str(port)]
    if server.max_model_len is not None:
        line += ["--max-model-len", str(server.max_model_len)]
    if parser:
        line += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    if server.reasoning_parser:
        line += ["--reasoning-parser", server.reasoning_parser]
    if server.chat_template:
        line += ["--chat-template", server.chat_template]
    if vllm.takes_ids:
        line += ["--enable-scale-out"]
    if vllm.cpu:
        line += ["--dtype", "bfloat16", "--enforce-eager"]
    return [*line, *server.arguments]


def environment(server: VLLMServer, vllm: VLLMInstallation) -> dict[str, str]:
    """Return the variables to add to this process's environment.

    The API key is passed here, because all users can read a command line.
    """
    added = {"VLLM_NO_USAGE_STATS": "1"}
    if server.api_key:
        added["VLLM_API_KEY"] = server.api_key
    if Path(server.model).is_dir():
        added["HF_HUB_OFFLINE"] = "1"
    if vllm.cpu:
        threads, room = str(server.threads), str(server.kv_cache_gib)
        added |= {**_CPU, "OMP_NUM_THREADS": threads, "VLLM_CPU_KVCACHE_SPACE": room}
    return added


def tool_parser(server: VLLMServer) -> str:
    """Return the tool parser to start with; empty for none.

    Raises ConfigError: the chat template does not show which tool parser to use.
    """
    if server.tool_parser != "auto":
        return "" if server.tool_parser == "none" else server.tool_parser
    template = _template(server)
    for mark, parser in _PARSERS:
        if mark in template:
            return parser
    where = (
        ""
        if Path(server.model).is_dir() or server.chat_template
        else (
            f": there is no folder {server.model}, and the template of a model on the Hugging "
            "Face hub is not read here"
        )
    )
    raise ConfigError(
        f"the chat template of {server.model} does not show which tool parser to use{where}",
        hint="name one with --tool-parser (vLLM's --tool-call-parser), or --tool-parser none "
        "for a model that calls no tools",
    )


def _template(server: VLLMServer) -> str:
    if server.chat_template:
        path = Path(server.chat_template)
        if not path.is_file():
            raise ConfigError(f"there is no chat template {path}")
        return path.read_text(encoding="utf-8")
    folder = Path(server.model)
    template_file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if template_file.is_file():
        return template_file.read_text(encoding="utf-8")
    if config.is_file():
        return str(json.loads(config.read_text(encoding="utf-8")).get("chat_template") or "")
    return ""

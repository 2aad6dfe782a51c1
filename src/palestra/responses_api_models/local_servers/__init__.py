"""Start local inference servers (vLLM and llama.cpp) with the right flags, and watch them."""

from palestra.responses_api_models.local_servers.installed import (
    VLLMInstallation,
    environment_folder,
    find_vllm,
)
from palestra.responses_api_models.local_servers.llama_cpp import serve_llama_cpp
from palestra.responses_api_models.local_servers.running import (
    READY_TIMEOUT_S,
    Serving,
    serve_vllm,
)

__all__ = [
    "READY_TIMEOUT_S",
    "Serving",
    "VLLMInstallation",
    "environment_folder",
    "find_vllm",
    "serve_llama_cpp",
    "serve_vllm",
]

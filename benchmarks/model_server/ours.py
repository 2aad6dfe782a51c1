"""A `vllm_model` as a process of a fleet serves it: `python -m ...ours UPSTREAM_URL`."""

import asyncio
import socket
import sys

import uvloop

from benchmarks.rollout_overhead.payloads import MODEL
from palestra.fleet import rare_collections
from palestra.fleet.sockets import serving
from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.transport import HttpClient, ServerClient


async def main(upstream: str) -> None:
    """Serve until standard input ends."""
    http = HttpClient()
    config = VLLMModelConfig(
        name="policy_model", base_url=upstream, model=MODEL, uses_reasoning_parser=True
    )
    server = VLLMModel(config=config, server_client=ServerClient({}, http))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    async with rare_collections(), serving(server.asgi_app(), listener):
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await http.aclose()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))

"""Servers written against `nemo_gym`, as source text, in a fleet of ours."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from textwrap import dedent
from typing import Any

from palestra.config import load_config
from palestra.fleet import Fleet

JUDGE = """
class Judge(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        raise RuntimeError("the endpoint is gone")
"""
HEAD = """
from typing import Any
from fastapi import Body, FastAPI, HTTPException, Request
from nemo_gym.base_resources_server import *
from nemo_gym.base_responses_api_agent import *
from nemo_gym.base_responses_api_model import *
from nemo_gym.config_types import *
from nemo_gym.global_config import *
from nemo_gym.judge import *
from nemo_gym.openai_utils import *
from nemo_gym.server_utils import *
"""
RESPONSE = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []}
ROW = {"responses_create_params": {"input": "q"}, "response": RESPONSE}


def run(
    root: Path,
    apps: dict[str, str],
    check: Callable[[Fleet], Coroutine[Any, Any, None]],
    settings: dict[str, Any] | None = None,
    top_level: dict[str, Any] | None = None,
    **files: str,
) -> None:
    """Run `check` with a fleet of `apps`, which are (folder, source)."""
    tree: dict[str, Any] = dict(top_level or {})
    for folder, source in apps.items():
        kind, name = folder.split("/")
        path = root / folder
        path.mkdir(parents=True)
        (path / "app.py").write_text(HEAD + dedent(source))
        for other, text in files.items():
            (path / f"{other}.py").write_text(HEAD + dedent(text))
        tree[name] = {kind: {name: {"entrypoint": "app.py", **(settings or {})}}}
    config = load_config(extra=tree, cwd=root, use_env_yaml=False)

    async def serve() -> None:
        async with asyncio.timeout(20), Fleet(config) as fleet:
            await check(fleet)

    asyncio.run(serve())

"""The inference server: OpenAI's chat completions over the tiny model, with token ids.

It speaks as vLLM does where Palestra's `vllm_model` listens: `token_ids`, `prompt_token_ids`, log
probs of what was sampled. `POST /update_weights` has it take new weights between two batches.

python model_server.py MODEL_FOLDER    # prints its address, ends with its standard input
"""

import argparse
import asyncio
import contextlib
import os
import socket
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

NAME = "tiny"
CONTEXT = 128
MOST_AT_ONCE = 256
GATHERING_S = 0.004
"""How long a batch waits for more requests."""


@dataclass(slots=True)
class Job:
    """A request on its way."""

    prompt: list[int]
    limit: int
    temperature: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class ChatRequest(BaseModel):
    """What is read of a chat completion's request."""

    messages: list[dict[str, Any]]
    max_tokens: int = 16
    temperature: float = 1.0


class NewWeights(BaseModel):
    """A file of weights, and their version."""

    path: Path
    version: int


class Generator:
    """Samples for many requests at once; one batch at a time."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.version = 0
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._between_batches = asyncio.Lock()

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        """The ids of a chat, up to where the model is to go on."""
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = self.tokenizer(text)["input_ids"]
        return ids

    async def complete(self, job: Job) -> None:
        """Have the job done."""
        self._jobs.put_nowait(job)
        await job.done.wait()

    async def take_weights(self, new: NewWeights) -> None:
        """From the next batch on."""
        async with self._between_batches:
            self.model.load_state_dict(load_file(new.path))
            self.version = new.version

    async def work(self) -> None:
        """Batch after batch, for ever."""
        while True:
            jobs = [await self._jobs.get()]
            await asyncio.sleep(GATHERING_S)
            while not self._jobs.empty() and len(jobs) < MOST_AT_ONCE:
                jobs.append(self._jobs.get_nowait())
            async with self._between_batches:
                await asyncio.to_thread(sample, self.model, self.tokenizer.eos_token_id, jobs)
            for job in jobs:
                job.done.set()


@torch.no_grad()
def sample(model: Any, end: int, jobs: list[Job]) -> None:
    """Sample all jobs token by token. The log probs are those at the job's temperature."""
    longest = max(len(job.prompt) for job in jobs)
    ids = torch.tensor([[end] * (longest - len(job.prompt)) + job.prompt for job in jobs])
    seen = torch.tensor([[0] * (longest - len(job.prompt)) + [1] * len(job.prompt) for job in jobs])
    heat = torch.tensor([[max(job.temperature, 1e-4)] for job in jobs])
    places = (seen.cumsum(1) - 1).clamp(min=0)
    past = None
    for _ in range(max(job.limit for job in jobs)):
        out = model(
            input_ids=ids,
            attention_mask=seen,
            position_ids=places,
            past_key_values=past,
            use_cache=True,
        )
        past = out.past_key_values
        logprobs = (out.logits[:, -1] / heat).log_softmax(-1)
        ids = torch.multinomial(logprobs.exp(), 1)
        drawn = logprobs.gather(1, ids)
        running = False
        for job, token, value in zip(jobs, ids[:, 0].tolist(), drawn[:, 0].tolist(), strict=True):
            if job.ids[-1:] == [end] or len(job.ids) == job.limit:
                continue
            job.ids.append(token)
            job.logprobs.append(value)
            running = running or (token != end and len(job.ids) < job.limit)
        if not running:
            return
        seen = torch.cat([seen, torch.ones_like(ids)], dim=1)
        places = seen.sum(1, keepdim=True) - 1


def make_app(generator: Generator) -> FastAPI:
    """The endpoints that are asked for here."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        working = asyncio.create_task(generator.work())
        yield
        working.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": NAME, "max_model_len": CONTEXT}]}

    @app.post("/update_weights")
    async def update_weights(new: NewWeights) -> dict[str, int]:
        await generator.take_weights(new)
        return {"version": generator.version}

    @app.post("/v1/chat/completions")
    async def chat(request: ChatRequest) -> dict[str, Any]:
        job = Job(generator.prompt(request.messages), request.max_tokens, request.temperature)
        await generator.complete(job)
        return completion(job, generator.tokenizer)

    return app


def completion(job: Job, tokenizer: Any) -> dict[str, Any]:
    """A finished job as a chat completion."""
    text = tokenizer.decode(job.ids, skip_special_tokens=True)
    ended = job.ids[-1:] == [tokenizer.eos_token_id]
    pairs = zip(job.ids, job.logprobs, strict=True)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop" if ended else "length",
        "token_ids": job.ids,
        "logprobs": {
            "content": [{"token": f"token_id:{token}", "logprob": value} for token, value in pairs]
        },
    }
    read, said = len(job.prompt), len(job.ids)
    usage = {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}
    return {
        "object": "chat.completion",
        "model": NAME,
        "choices": [choice],
        "prompt_token_ids": job.prompt,
        "usage": usage,
    }


def end_with_parent() -> None:
    """Whoever started this holds its standard input open."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description="serve the tiny model")
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)  # the other core is the fleet's
    disable_progress_bar()
    app = make_app(Generator(given.folder))
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    threading.Thread(target=end_with_parent, daemon=True).start()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    server.run(sockets=[listening])


if __name__ == "__main__":
    main()

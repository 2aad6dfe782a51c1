"""A vLLM for tests: ChatML, a token for each character, and answers that are scripted as ids.

The shapes of its answers are those of vLLM 0.32.0. As with a real one, a text has more than one
tokenization: `{"` is one token when a chat is tokenized, and two when the model wrote it so.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from palestra.responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig
from palestra.responses_api_models.vllm_model.known import Known
from palestra.transport import (
    ConnectionFailed,
    HttpReply,
    HttpRequest,
    HttpTransport,
    ServerClient,
)

START, END, BRACE = 1, 2, 3
_WORDS = {"<|im_start|>": START, "<|im_end|>": END, '{"': BRACE}
_TEXTS = {token: word for word, token in _WORDS.items()}
_CALL = re.compile(r"<tool_call>(.*)</tool_call>", re.DOTALL)

CALL_AS_WRITTEN = '<tool_call>{ "name": "look",  "arguments": {"at": "Rome"} }</tool_call>'
"""JSON with spaces that no rendering repeats."""


def tokenize(text: str) -> list[int]:
    parts = re.split(r"(<\|im_start\|>|<\|im_end\|>|\{\")", text)
    found: list[int] = []
    for part in parts:
        found += [_WORDS[part]] if part in _WORDS else [ord(letter) for letter in part]
    return found


def sampled(text: str) -> list[int]:
    """As a model may write it: never the token for two characters."""
    return [ord(letter) for letter in text]


def detokenize(ids: Sequence[int]) -> str:
    return "".join(_TEXTS.get(token) or chr(token) for token in ids)


def render(messages: Sequence[dict[str, Any]], *, begun: bool) -> str:
    text = "".join(f"<|im_start|>{m['role']}\n{_content(m)}<|im_end|>\n" for m in messages)
    return text + ("<|im_start|>assistant\n" if begun else "")


def prompt_of(body: Any, documents: Any) -> list[int]:
    """What a chat's template makes of a request; documents come first."""
    given = "".join(f"{document['text']}\n" for document in documents or ())
    begun = body.get("add_generation_prompt", True)
    return tokenize(given + render(body["messages"], begun=begun))


def _content(message: dict[str, Any]) -> str:
    calls = "".join(
        f'<tool_call>{{"name": "{call["function"]["name"]}", '
        f'"arguments": {call["function"]["arguments"]}}}</tool_call>'
        for call in message.get("tool_calls") or ()
    )
    return (message.get("content") or "") + calls


@dataclass
class FakeVLLM:
    """An HTTP transport. `answers`: what the model writes, turn by turn, as text.

    `refusing`: statuses that it answers with at some paths, for as long as they stand there; 0 is
    no connection.
    """

    answers: list[str]
    takes_ids: bool = True
    returns_ids: bool = True
    only_spells_ids: bool = False
    """As before it knew `return_token_ids`: its `/tokenize` must say what the prompt was."""
    texts_as_tokens: bool = False
    """It knows `return_token_ids` and leaves tokens as the texts that they are."""
    reads_more: int = 0
    """Tokens of a prompt that `/tokenize` does not tell of."""
    finish_reason: str = "stop"
    features: Any = None
    refusing: dict[str, int] = field(default_factory=dict)
    saying: dict[str, Any] = field(default_factory=dict)
    """What it says at some paths instead, with status 200."""
    requests: list[tuple[str, Any]] = field(default_factory=list)

    async def send(self, request: HttpRequest, /) -> HttpReply:
        path = urlsplit(request.url).path
        body = orjson.loads(request.body) if request.body else None
        self.requests.append((path, body))
        refusal = self.refusing.get(path)
        if refusal == 0:
            raise ConnectionFailed(f"{request.url}: connection refused", was_sent=False)
        if path in self.saying:
            return HttpReply(status=200, body=orjson.dumps(self.saying[path]))
        status, answer = (refusal, {}) if refusal else self._answer(path, body)
        return HttpReply(status=status, body=orjson.dumps(answer))

    async def aclose(self) -> None:
        """Nothing is open."""

    def asked(self, path: str) -> list[Any]:
        return [body for asked, body in self.requests if asked == path]

    def _answer(self, path: str, body: Any) -> tuple[int, Any]:  # noqa: PLR0911
        match path:
            case "/v1/models":
                return 200, {"data": [{"id": "smollm2", "max_model_len": 2048}]}
            case "/version":
                return 200, {"version": "0.32.0"}
            case "/tokenize":
                kwargs = body.get("chat_template_kwargs") or {}
                return 200, {"tokens": prompt_of(body, kwargs.get("documents"))}
            case "/v1/chat/completions":
                return 200, self._chat(body)
            case "/v1/chat/completions/render" if self.takes_ids:
                ids = tokenize(render(body["messages"], begun=True))
                sampling = {"max_tokens": body.get("max_tokens")}
                features = self.features
                return 200, {"token_ids": ids, "features": features, "sampling_params": sampling}
            case "/inference/v1/generate" if self.takes_ids:
                return 200, self._generate(body)
            case "/v1/chat/completions/derender" if self.takes_ids:
                ids = body["generate_response"]["choices"][0]["token_ids"]
                return 200, {"choices": [{"message": _message(detokenize(ids))}]}
        return 404, {"detail": "Not Found"}

    def _next(self, probe: bool) -> list[int]:
        said = sampled("Y" if probe else self.answers.pop(0))
        return said if self.finish_reason == "length" else [*said, END]

    def _chat(self, body: Any) -> dict[str, Any]:
        ids = self._next(body.get("max_tokens") == 1)
        ended = ids[:-1] if ids[-1] == END else ids
        spelt = [chr(token) if self.texts_as_tokens else f"token_id:{token}" for token in ids]
        entries = [{"token": token, "logprob": -0.5} for token in spelt]
        choice: dict[str, Any] = {
            "message": _message(detokenize(ended)),
            "finish_reason": self.finish_reason,
        }
        prompt = prompt_of(body, body.get("documents"))
        made: dict[str, Any] = {"id": "chatcmpl-1", "model": "smollm2", "choices": [choice]}
        made["usage"] = {"prompt_tokens": len(prompt) + self.reads_more}
        if self.returns_ids:
            choice |= {"logprobs": {"content": entries}}
        if self.returns_ids and not self.only_spells_ids:
            choice |= {"token_ids": ids}
            made["prompt_token_ids"] = prompt
        return made

    def _generate(self, body: Any) -> dict[str, Any]:
        prompt = body["token_ids"]
        ids = self._next(body["sampling_params"]["max_tokens"] == 1)
        entries = [{"token_id": token, "logprob": -0.5} for token in ids]
        choice = {"token_ids": ids, "logprobs": {"content": entries}}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": 0}
        return {
            "request_id": "generate-tokens-1",
            "prompt_token_ids": prompt,
            "usage": usage,
            "choices": [{**choice, "finish_reason": self.finish_reason, "stop_reason": None}],
        }


def _message(text: str) -> dict[str, Any]:
    found = _CALL.search(text)
    if found is None:
        return {"role": "assistant", "content": text}
    call = orjson.loads(found[1])
    arguments = orjson.dumps(call["arguments"]).decode()
    function = {"name": call["name"], "arguments": arguments}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


@dataclass
class FakeHosts:
    """An HTTP transport to several fakes, by host: `http://one/v1` leads to `hosts["one"]`."""

    hosts: dict[str, FakeVLLM]

    async def send(self, request: HttpRequest, /) -> HttpReply:
        return await self.hosts[urlsplit(request.url).hostname or ""].send(request)

    async def aclose(self) -> None:
        """Nothing is open."""

    @property
    def urls(self) -> list[str]:
        return [f"http://{host}/v1" for host in self.hosts]


class Clock:
    """A clock that only moves when somebody sleeps on it, or is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def token_model(http: HttpTransport, **settings: Any) -> VLLMModel:
    """A `vllm_model` in front of the fake, with token ids."""
    config = VLLMModelConfig.model_validate(
        {
            "name": "policy_model",
            "base_url": "http://fake/v1",
            "model": "smollm2",
            "return_token_id_information": True,
            **settings,
        }
    )
    return VLLMModel(config=config, server_client=ServerClient({}, http))


def on_clock(model: VLLMModel, clock: Clock) -> VLLMModel:
    """The same model server, which asks its endpoints again by this clock."""
    ask = model._known_capabilities._probe
    model._known_capabilities = Known(ask, server="policy_model", clock=clock, sleep=clock.sleep)
    return model

"""Log probs that are none: told clearly, and left to a trainer, who has a policy for them."""

import asyncio
import json
import math
from typing import Any

import pytest
from test_vllm_turns import params
from token_fakes import FakeVLLM, token_model, tokenize

from palestra.errors import ModelError, RowIdentity
from palestra.responses_api_models.vllm_model.token_ids import tokens_on
from palestra.schema import TokenFault, TokenVerdict
from palestra.server import MessagesRequest, Session, TrainingRun
from palestra.transport import CallContext, HttpReply, HttpRequest, calling

NAN, INFINITE = math.nan, -math.inf
HELLO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Weather?"}]}


class Spoilt(FakeVLLM):
    """One log probability is `value`; the last one is not there when it is "none"."""

    def __init__(self, value: Any) -> None:
        super().__init__(["Cold."])
        self._value = value

    async def send(self, request: HttpRequest, /) -> HttpReply:
        reply = await super().send(request)
        said = json.loads(reply.body)
        if not isinstance(said, dict) or "logprobs" not in said.get("choices", [{}])[0]:
            return reply
        entries = said["choices"][0]["logprobs"]["content"]
        if self._value == "none":
            entries.pop()
        else:
            entries[1]["logprob"] = self._value
        # As Python's own encoder writes it: NaN and Infinity as such.
        return HttpReply(status=reply.status, body=json.dumps(said).encode())


def log_probs_of(value: Any, *, training: bool) -> list[Any]:
    model = token_model(Spoilt(value))
    if training:
        model._palestra_capture.apply(TrainingRun(run="run"))
    with calling(CallContext(row=RowIdentity(0, 0, 1, "agent", "run.1"))):
        answer = asyncio.run(model.responses(params(), Session("s")))
    tokens = tokens_on(answer.output[-1])
    assert tokens is not None
    return tokens.log_probs


@pytest.mark.parametrize("value", [NAN, INFINITE, 0.7, None])
def test_a_trainer_gets_log_probs_as_they_are(value: Any) -> None:
    found = log_probs_of(value, training=True)[1]

    assert found == value or (math.isnan(value) and math.isnan(found))


def test_a_trainer_gets_too_few_log_probs_as_they_are() -> None:
    assert len(log_probs_of("none", training=True)) == len(tokenize("Cold."))


def test_the_capture_says_what_is_wrong_with_them() -> None:
    model = token_model(Spoilt(NAN))
    row = RowIdentity(0, 0, 1, "agent", "run.1")
    model._palestra_capture.apply(TrainingRun(run="run"))
    with calling(CallContext(row=row)):
        asyncio.run(model.messages(MessagesRequest.model_validate(HELLO), Session("s")))

    (turn,) = model.captured_turns(row).turns

    fault = TokenFault("generation_log_probs", 1, "nan at 1 is not a log probability")
    assert turn.verdict == TokenVerdict(log_probs=fault)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (NAN, "nan at 1 is not a log probability"),
        (INFINITE, "-inf at 1 is not a log probability"),
        (None, "None at 1 is not a log probability"),
        ("none", "5 log probs for 6 ids"),
    ],
)
def test_everybody_else_is_told_what_is_wrong_with_them(value: Any, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        log_probs_of(value, training=False)

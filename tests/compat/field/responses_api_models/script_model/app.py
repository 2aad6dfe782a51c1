import json
from time import time
from typing import List
from uuid import uuid4

from fastapi import Request

from nemo_gym.base_responses_api_model import (
    BaseResponsesAPIModelConfig,
    Body,
    SimpleResponsesAPIModel,
)
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymChatCompletionMessage,
    NeMoGymChoice,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseUsage,
)
from nemo_gym.server_utils import SESSION_ID_KEY


class ScriptModelConfig(BaseResponsesAPIModelConfig):
    verdict: str = "[[A=B]]"
    sessions_seen: List[str] = []


class ScriptModel(SimpleResponsesAPIModel):
    """Calls the tools of the first message's `call ` lines, then says its `say ` lines, one a turn."""

    config: ScriptModelConfig

    async def responses(
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        assert request.session[SESSION_ID_KEY]
        items = body.input
        first = items if isinstance(items, str) else items[0].content
        done = [] if isinstance(items, str) else [i for i in items if i.type == "function_call_output"]
        calls = [line[5:] for line in first.splitlines() if line.startswith("call ")]
        if len(done) < len(calls):
            name, _, arguments = calls[len(done)].partition(" ")
            output = [
                NeMoGymResponseFunctionToolCall(
                    arguments=arguments or "{}",
                    call_id=f"call_{uuid4().hex}",
                    name=name,
                    type="function_call",
                    status="completed",
                )
            ]
        else:
            said = [line[4:] for line in first.splitlines() if line.startswith("say ")]
            turns = [] if isinstance(items, str) else [
                i for i in items if i.type == "message" and i.role == "assistant"
            ]
            text = said[min(len(turns), len(said) - 1)] if said else self.config.verdict
            if text == "the last output":
                text = json.dumps(json.loads(done[-1].output))
            output = [
                NeMoGymResponseOutputMessage(
                    id=f"msg_{uuid4().hex}",
                    content=[NeMoGymResponseOutputText(annotations=[], text=text)],
                )
            ]
        return NeMoGymResponse(
            id=f"resp_{uuid4().hex}",
            created_at=int(time()),
            model="script",
            object="response",
            output=output,
            tool_choice=body.tool_choice,
            parallel_tool_calls=body.parallel_tool_calls,
            tools=body.tools,
            usage=NeMoGymResponseUsage(
                input_tokens=3,
                input_tokens_details=NeMoGymResponseInputTokensDetails(cached_tokens=0),
                output_tokens=2,
                output_tokens_details=NeMoGymResponseOutputTokensDetails(reasoning_tokens=0),
                total_tokens=5,
            ),
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        return NeMoGymChatCompletion(
            id="chat",
            choices=[
                NeMoGymChoice(
                    finish_reason="stop",
                    index=0,
                    message=NeMoGymChatCompletionMessage(
                        role="assistant", content=body.messages[-1]["content"]
                    ),
                )
            ],
            created=int(time()),
            model="script",
            object="chat.completion",
        )


if __name__ == "__main__":
    ScriptModel.run_webserver()

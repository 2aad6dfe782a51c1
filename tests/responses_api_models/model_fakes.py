"""A fake model server: it answers with token ids, as one in front of a trained model does."""

from pydantic import PrivateAttr

from palestra.schema import Response, ResponseCreateParams
from palestra.server import ModelServer, ModelServerConfig, Session


class TokenModel(ModelServer):
    """Calls the first tool once, if there is one, and then says that it is sunny.

    Each turn it was told of with ids makes its prompt one id longer.
    """

    config: ModelServerConfig

    _asked: list[ResponseCreateParams] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[ResponseCreateParams]:
        """Every request, in order."""
        return self._asked

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """The next turn."""
        self._asked.append(body)
        items = [] if isinstance(body.input, str) else body.input
        turns = sum(item.generation_token_ids is not None for item in items)
        tokens = {
            "prompt_token_ids": [1, 2, 3, *[9] * turns],
            "generation_token_ids": [4, 5],
            "generation_log_probs": [-0.1, -0.2],
        }
        thought = {"type": "summary_text", "text": "hm"}
        if body.tools and not any(item.type == "function_call" for item in items):
            said = {
                "type": "function_call",
                "call_id": "call_1",
                "name": "get_weather",
                "arguments": '{ "city": "Paris" }',
            }
        else:
            text = {"type": "output_text", "text": "sunny", "annotations": []}
            said = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        return Response.model_validate(
            {
                "id": "resp_1",
                "created_at": 1,
                "model": "m",
                "output": [{"type": "reasoning", "id": "r", "summary": [thought]}, said | tokens],
                "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            }
        )

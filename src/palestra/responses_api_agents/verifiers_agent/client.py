"""A `verifiers` model client that calls a model server of the fleet.

So model calls carry the rollout's identity and deadline, and a failure keeps its cause. The library
would turn every exception into its own error and a reward of 0.
"""

from collections.abc import Sequence
from typing import Any, final

from openai.types.chat import ChatCompletion as NativeCompletion
from verifiers.clients.openai_chat_completions_client import (  # type: ignore[import-not-found]
    OpenAIChatCompletionsClient,
)

from palestra.errors import CallError
from palestra.schema import ChatCompletion, JsonDict, JsonObject, encode_json
from palestra.transport import Peer


@final
class PeerClient(OpenAIChatCompletionsClient):  # type: ignore[misc]  # the library has no types
    """The model client of one rollout. `failure`: the error of a call without an answer, or None."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.failure: CallError | None = None
        self.model = peer.name
        """The model that answered last, as it calls itself."""

    async def get_native_response(
        self,
        prompt: Sequence[JsonObject],
        model: str,
        sampling_args: JsonObject,
        tools: Sequence[Any] | None = None,
        **_options: Any,
    ) -> NativeCompletion:
        """Call the model server and return its answer.

        Raises `CallError`, which is also stored in `failure`; the library then counts the rollout
        as failed.
        """
        messages = [
            {name: value for name, value in message.items() if value is not None}
            for message in prompt
        ]
        sampling = {name: value for name, value in sampling_args.items() if value is not None}
        body: JsonDict = {"model": model, "messages": messages, **sampling}
        if tools:
            body["tools"] = list(tools)
        peer: Peer = self.client
        try:
            answer = await peer.call("/v1/chat/completions", body, ChatCompletion)
        except CallError as error:
            self.failure = error
            raise
        self.model = answer.model
        return NativeCompletion.model_validate_json(encode_json(answer))

    async def close(self) -> None:
        """Do nothing: the fleet owns the connections."""

"""The ASGI layer that captures the model calls of an app and takes the rollout prefix off paths.

Requests and answers pass as they come, byte for byte. Only the end of an answer waits until the call
is recorded, so that whoever has the answer also finds the record.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, final

from palestra.observability.event_streams import EventReader
from palestra.observability.recording import CallAnswer, CallRecorder, OpenCall, TokenSink
from palestra.observability.rollout_ids import rollout_context, without_prefix
from palestra.observability.store import CaptureStore
from palestra.transport import ASGIApp

Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]

EVENT_STREAM: Final = b"text/event-stream"


@final
class CaptureLayer:
    """Captures the POSTs to `/v1/responses`, `/v1/chat/completions` and `/v1/messages` that belong
    to a rollout.

    `store`: where calls are recorded; None: nowhere. `token_store`: where token ids are recorded
    when `token_capture_enabled`; `configured_sink` takes its place.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        store: CaptureStore | None,
        model_server_name: str,
        token_store: TokenSink | None = None,
        configured_sink: TokenSink | None = None,
        token_capture_enabled: bool = False,
    ) -> None:
        self._app = app
        tokens = (configured_sink or token_store) if token_capture_enabled else None
        records = store is not None or tokens is not None
        self._recorder = CallRecorder(model_server_name, store, tokens) if records else None
        # The app may answer one dialect by a request to itself, which is the same model call.
        self._is_answering: ContextVar[bool] = ContextVar("palestra_captured_call", default=False)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, prefixed = without_prefix(scope)
        if prefixed is None:
            await self._answer(scope, receive, send)
            return
        with rollout_context(prefixed.rollout_id, token_capture=prefixed.token_capture):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        call = None
        if (
            self._recorder is not None
            and scope["method"] == "POST"
            and not self._is_answering.get()
        ):
            call = self._recorder.begin(scope["path"])
        if call is None or self._recorder is None:
            await self._app(scope, receive, send)
            return
        exchange = _CapturedExchange(self._recorder, call, receive, send)
        token = self._is_answering.set(True)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            await exchange.end(failure=error)
            raise
        finally:
            self._is_answering.reset(token)
        await exchange.end(cut=True)


@final
class _CapturedExchange:
    """One request and its answer, on their way through the layer."""

    def __init__(
        self, recorder: CallRecorder, call: OpenCall, receive: Receive, send: Send
    ) -> None:
        self._recorder = recorder
        self._call = call
        self._receive = receive
        self._send = send
        self._request: list[bytes] = []
        self._answer: list[bytes] = []
        self._status: int | None = None
        self._events: EventReader | None = None
        self._ended = False

    async def receive(self) -> Any:
        """Return the next message of the request, and keep its body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._request.append(message.get("body", b""))
        return message

    async def send(self, message: Any) -> None:
        """Pass on a message of the answer; the one that ends it after the record is written."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            kinds = [value for name, value in message.get("headers", ()) if name == b"content-type"]
            if kinds and kinds[0].lower().startswith(EVENT_STREAM):
                self._events = EventReader()
        elif message["type"] == "http.response.body" and not self._ended:
            body = message.get("body", b"")
            self._answer.append(body)
            is_last = not message.get("more_body")
            if self._events is not None:
                if body:
                    self._call.first_bytes()
                events = self._events.feed(body)
                is_last |= any(event.ends(self._call.dialect) for event in events)
            if is_last:
                await self.end()
        await self._send(message)

    async def end(self, *, failure: BaseException | None = None, cut: bool = False) -> None:
        """Record the call, once. `cut`: the app ended without ending its answer."""
        if self._ended:
            return
        self._ended = True
        answer = CallAnswer(
            self._status,
            b"".join(self._answer),
            streamed=self._events is not None,
            failure=failure,
            cut=cut,
        )
        await self._recorder.end(self._call, b"".join(self._request), answer)

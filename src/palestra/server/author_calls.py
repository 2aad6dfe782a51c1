"""Calls of authors' code that run inside this process, told to its pulse while they execute.

What Palestra ships is not told: it is trusted to return, and pays nothing.
"""

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol, final

import msgspec

from palestra.errors import RowIdentity
from palestra.server.code_files import is_authors_file
from palestra.system import Driven, Pulse, current_pulse
from palestra.transport import current_call, encoded_with, fields_of_request

VERIFY = "/verify"


class AuthorCall(msgspec.Struct, frozen=True):
    """A call of code that Palestra does not ship. `file` and `line`: where `function` begins."""

    server: str
    path: str
    server_type: str
    function: str
    file: str
    line: int
    row: RowIdentity | None = None
    verify_request: Any = None
    """What `/verify` was asked: the model's answer must not be lost with its verification."""


def code_of(function: Callable[..., Any]) -> Any:
    """The code object of a function, a method or what a decorator wraps; None where there is none."""
    return getattr(inspect.unwrap(function), "__code__", None)


def is_by_author(cls: type) -> bool:
    """Whether some code of the class is not Palestra's."""
    return any(
        (code := getattr(member, "__code__", None)) is not None
        and is_authors_file(code.co_filename)
        for base in cls.__mro__
        for member in vars(base).values()
    )


class _Named(Protocol):
    """What is to be known of a server."""

    @property
    def name(self) -> str: ...

    @property
    def palestra_type(self) -> str: ...


@final
class AuthorMethod:
    """One function of an author's, as an endpoint of a server calls it."""

    __slots__ = ("_call", "_fields")

    def __init__(self, function: Callable[..., Any], server: "_Named", path: str) -> None:
        code = code_of(function)
        self._call = AuthorCall(
            server=server.name,
            server_type=server.palestra_type,
            path=path,
            function=getattr(function, "__qualname__", type(function).__name__),
            file=code.co_filename if code is not None else "",
            line=code.co_firstlineno if code is not None else 0,
        )
        self._fields: dict[str, Any] = msgspec.to_builtins(self._call)

    async def executed(self, pulse: Pulse, begin: Callable[[], Any], body: Any = None) -> Any:
        """What `begin` returns, awaited where that is to be; the pulse tells while it executes.

        `body`: what the function was asked, where that is known.
        """
        context = current_call()
        text = self._text(body, pulse.longest_text)
        token = _executing.set((text, context.deadline))
        try:
            with _on_this_thread(pulse, text, context.deadline):
                result = begin()
            if inspect.iscoroutine(result):
                return await Driven(result, pulse, text, context.deadline)
            return await result if isinstance(result, Awaitable) else result
        finally:
            _executing.reset(token)
            pulse.forget(text)

    def _text(self, body: Any, longest: int) -> bytes:
        context = current_call()
        fields = {**self._fields, "row": context.row}
        if self._call.path != VERIFY:
            return msgspec.json.encode(fields)
        if not body and context.activity is not None:
            body = context.activity.verify_request
        text = encoded_with(fields, {"verify_request": dict(fields_of_request(body))})
        if text is None or len(text) > longest:
            return msgspec.json.encode(fields)  # without the answer the rollout is named at least
        return text


@contextlib.contextmanager
def _on_this_thread(pulse: Pulse, text: bytes, deadline: float | None) -> Iterator[None]:
    pulse.enter(text, deadline)
    try:
        yield
    finally:
        pulse.leave()


_executing: ContextVar[tuple[bytes, float | None] | None] = ContextVar(
    "palestra_executing", default=None
)


@contextlib.contextmanager
def on_a_thread() -> Iterator[None]:
    """Tell the pulse that the author's call of this context goes on on this thread."""
    pulse, call = current_pulse(), _executing.get()
    if pulse is None or call is None:
        yield
        return
    with _on_this_thread(pulse, *call):
        yield

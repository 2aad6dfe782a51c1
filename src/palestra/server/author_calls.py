"""Reports each call of an author's code in this process to the process's `Pulse` while it runs.

Calls of Palestra's own code are not reported: they are trusted to return, so they have no overhead.
"""

import contextlib
import inspect
import sysconfig
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, final

import msgspec
from anyio import CapacityLimiter, to_thread

from palestra.errors import RowIdentity
from palestra.schema import JsonDict
from palestra.server.author_code import code_of
from palestra.system import Driven, Pulse, current_pulse
from palestra.transport import current_call, encoded_with, fields_of_request

_PACKAGE = str(Path(__file__).parent.parent)
_SERVERS = tuple(
    f"{_PACKAGE}/{kind}/"
    for kind in ("resources_servers", "responses_api_agents", "responses_api_models")
)
_LIBRARIES = tuple(
    {sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_INSTALLED = ("/site-packages/", "/dist-packages/")
"""Folders of installed libraries, also those of other interpreters and of the user."""


def is_servers_file(path: str) -> bool:
    """Whether `path` is a file with a server's code: an author's own file, or a server that
    Palestra ships.
    """
    return path.startswith(_SERVERS) or is_authors_file(path)


def is_authors_file(path: str) -> bool:
    """Whether `path` is an author's own file: not a library's and not one that Palestra ships."""
    is_library = path.startswith(_LIBRARIES) or any(folder in path for folder in _INSTALLED)
    return not is_library and not path.startswith(("<", f"{_PACKAGE}/"))


VERIFY = "/verify"


class AuthorCall(msgspec.Struct, frozen=True):
    """One call of code that Palestra does not ship. `file` and `line`: where `function` begins."""

    server: str
    path: str
    server_type: str
    function: str
    file: str
    line: int
    row: RowIdentity | None = None
    verify_request: Any = None
    """The body of the `/verify` request, kept so that the model's answer is not lost if the call
    fails."""


def is_by_author(cls: type) -> bool:
    """Whether some method of the class was written by an author and not by Palestra."""
    return any(
        (code := code_of(member)) is not None and is_authors_file(code.co_filename)
        for base in cls.__mro__
        for member in vars(base).values()
    )


class _Named(Protocol):
    """The name and the type of a server."""

    @property
    def name(self) -> str: ...

    @property
    def palestra_type(self) -> str: ...


@final
class AuthorMethod:
    """One function that an author wrote, as an endpoint of a server calls it."""

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
        self._fields: JsonDict = msgspec.to_builtins(self._call)

    @property
    def server(self) -> str:
        """The name of the server whose endpoint calls the function."""
        return self._call.server

    async def executed(self, pulse: Pulse, begin: Callable[[], Any], body: Any = None) -> Any:
        """Call `begin`, await its result if it is awaitable, and return it. The pulse reports the
        call while it runs.

        `body`: the request's body, where it is known.
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
    """Report to the pulse that the author's call of this context now runs on this thread."""
    pulse, call = current_pulse(), _executing.get()
    if pulse is None or call is None:
        yield
        return
    with _on_this_thread(pulse, *call):
        yield


T = TypeVar("T")

AT_ONCE: Final = 4
"""The number of threads per server. With four, one slow call does not block the others; more
threads would only compete for the interpreter's lock, also with the event loop."""


class Aside:
    """Threads that run the blocking calls of one server.

    A call is cancelled at its rollout's deadline, or when its caller disconnects. Python cannot
    stop a thread, so the thread is abandoned: the rollout ends in time and another call gets the
    free place.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = CapacityLimiter(at_once)

    async def run(self, function: Callable[[], T]) -> T:
        """Call `function` on a thread, with the caller's context. Return its result or raise its
        error.

        An exception that is not an `Exception` (such as `sys.exit()`), or StopIteration, could stop
        the event loop or the command. It is raised as a RuntimeError, with the original as its
        cause.
        """
        return await to_thread.run_sync(
            partial(_contained, function), abandon_on_cancel=True, limiter=self._places
        )


def _contained(function: Callable[[], T]) -> T:
    try:
        with on_a_thread():
            return function()
    except StopIteration as error:
        raise RuntimeError(_error_text(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(_error_text(error)) from error


def _error_text(error: BaseException) -> str:
    return f"raised {type(error).__name__}" + (f": {error}" if str(error) else "")

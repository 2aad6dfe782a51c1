"""The questions to models that got no answer while an environment computed a reward.

Code of an environment may catch the error of its judge and go on to a reward, which says nothing of
the policy. So each failed question is kept until the code returns, and its result is then refused.
A later answer to the same question settles it: the author's code has asked again.

Only calls of the environment's own code count. What a model server asks of another one is its own
matter, and its caller sees the outcome.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, ClassVar, Final, Self, final

import orjson

from palestra.config import ServerType
from palestra.errors import CallError, Outcome, PromptTooLong, add_question
from palestra.schema import FAILURE_CLASS, field_of, question_key, question_text, to_plain
from palestra.transport.local import Target

REWARD_PATHS: Final = frozenset({"/verify", "/step"})
"""The paths of an environment whose answers have a reward."""

_MODEL_PATHS: Final = ("/v1/responses", "/v1/chat/completions", "/v1/messages")
"""The ends of the paths at which a model is asked something."""


@final
class UnansweredQuestions:
    """The questions without an answer of one call of `where`, which is a server and its path."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._failures: dict[bytes, CallError] = {}
        self._is_open = True

    def close(self) -> None:
        """Keep nothing more. A task that the code began may go on and ask for further rollouts."""
        self._is_open = False

    def failed(self, body: Any, error: CallError, *, server: str = "") -> None:
        """Keep the final error of the request `body`. `server`: a server that is no model."""
        if self._is_open:
            plain = _plain(body)
            self._failures[_key(plain, server)] = add_question(error, question_text(plain))

    def answered(self, body: Any, *, server: str = "") -> None:
        """Forget the failures that the answer to the request `body` settles. `server`: a server that
        is no model.
        """
        if not self._failures or not self._is_open:
            return
        key = _key(_plain(body), server)
        self._failures = {
            failed_key: error
            for failed_key, error in self._failures.items()
            # A prompt that was too long is asked again in fewer words.
            if failed_key != key and (server or not isinstance(error, PromptTooLong))
        }

    def refuse(self, result: Any) -> None:
        """Raise the error of the first question without an answer, unless `result` is marked as a
        failure itself.
        """
        if not self._failures or field_of(result, FAILURE_CLASS):
            return
        failure = next(iter(self._failures.values()))
        further = len(self._failures) - 1
        further_text = f" and {further} more" if further else ""
        failure.message = (
            f"{failure.message}; {self._where} went on without this answer{further_text}"
        )
        failure.args = (failure.message,)
        raise failure


_of_reward: Final[ContextVar[UnansweredQuestions | None]] = ContextVar(
    "palestra_unanswered_questions", default=None
)


@final
class _Noting:
    # Not a generator: it is entered in every verification, and that takes longer.
    __slots__ = ("_questions", "_token")

    def __init__(self, questions: UnansweredQuestions) -> None:
        self._questions = questions

    def __enter__(self) -> UnansweredQuestions:
        self._token = _of_reward.set(self._questions)
        return self._questions

    def __exit__(self, *_: object) -> None:
        _of_reward.reset(self._token)
        self._questions.close()


def noting_questions(where: str) -> AbstractContextManager[UnansweredQuestions]:
    """Return a `with` block in which failed questions to models are kept. `where`: server and path
    of the code that computes a reward.
    """
    return _Noting(UnansweredQuestions(where))


def note_unanswered(body: Any, error: CallError) -> None:
    """Keep that the question `body` failed with `error`, if a reward is being computed."""
    questions = _of_reward.get()
    if questions is not None:
        questions.failed(body, error)


def note_answered(body: Any) -> None:
    """Note that the question `body` has an answer, if a reward is being computed."""
    questions = _of_reward.get()
    if questions is not None:
        questions.answered(body)


class _NoQuestion:
    """A `with` block around a call of which nothing is kept."""

    __slots__ = ()

    is_kept: ClassVar[bool] = False
    """Whether the outcome of the call is kept."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def refused(self, error: CallError) -> None:
        """Note that the call was answered with an error."""


@final
class _Question(_NoQuestion):
    """A `with` block around one call of a server, whose outcome is kept."""

    __slots__ = ("_body", "_questions", "_refusal", "_server", "_token")

    is_kept = True

    def __init__(
        self, questions: UnansweredQuestions, target: Target, path: str, body: Any
    ) -> None:
        is_model = target.server_type == ServerType.MODEL
        is_question = is_model and path.partition("?")[0].endswith(_MODEL_PATHS)
        self._server = "" if is_question else f"{target.name}{path}"
        self._questions = questions
        self._body = body
        self._refusal: CallError | None = None
        self._token: Token[UnansweredQuestions | None] | None = None

    def __enter__(self) -> Self:
        self._token = _of_reward.set(None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _of_reward.reset(self._token)
        failure = error if isinstance(error, CallError) else self._refusal
        if failure is not None:
            # Of an environment that verifies for another one, when its own judge failed.
            if not self._server or failure.outcome is Outcome.JUDGE_ERROR:
                self._questions.failed(self._body, failure, server=self._server)
        elif kind is None:
            self._questions.answered(self._body, server=self._server)

    def refused(self, error: CallError) -> None:
        self._refusal = error


_NO_QUESTION: Final = _NoQuestion()


def asking(target: Target, path: str, body: Any) -> _NoQuestion:
    """Return a `with` block around a call of `target` with the request `body`, an object or its JSON.

    An error of the call, or one noted with `refused`, is kept if a reward is being computed.
    """
    questions = _of_reward.get()
    return _NO_QUESTION if questions is None else _Question(questions, target, path, body)


def _key(plain: Any, server: str) -> bytes:
    """Return what is the same for two requests of which one settles the failure of the other."""
    try:
        if server:
            return orjson.dumps([server, plain], option=orjson.OPT_SORT_KEYS)
        return question_key(plain)
    except TypeError:  # no JSON, such as a lone surrogate
        return repr((server, plain)).encode(errors="backslashreplace")


def _plain(body: Any) -> Any:
    if not isinstance(body, bytes):
        return to_plain(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None

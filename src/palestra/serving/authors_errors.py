"""What escapes from an author's own code: which of it is theirs, and how to say it."""

import asyncio

ESCAPES = (Exception, SystemExit, asyncio.CancelledError)
"""What the code of a server may raise and its callers must not: `sys.exit` in a verifier would
end the whole run, and an await that was cancelled inside would lose the rollout."""


def stops_this_task(error: BaseException) -> bool:
    """Whether `error` is our own request to stop, and not something that the code raised."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def text_of(error: BaseException) -> str:
    """What an exception says, as text that can be written and sent whatever it holds."""
    try:
        text = str(error)
    except Exception as inner:
        text = f"(its text cannot be made: {type(inner).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """`KeyError: 'x'`: type and text."""
    return f"{type(error).__name__}: {text_of(error)}"

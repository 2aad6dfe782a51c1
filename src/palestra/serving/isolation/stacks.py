"""Where an author's code stood, read from what `faulthandler` writes of a stack."""

import re
from typing import Final

from palestra.serving.authors_errors import AuthorsPlace
from palestra.serving.code_files import is_servers_file

_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_LAST: Final = ('  File "<string>", line 1 in <module>', "  ...\n")
"""How a whole stack ends: where the nursery's program began, or a hundred frames above that."""


def is_whole(stack: str) -> bool:
    """Whether no frame is missing."""
    return any(sign in stack for sign in _LAST)


def authors_place(stack: str) -> AuthorsPlace:
    """The innermost frame of an author's file; without one, the innermost at all."""
    frames = [
        AuthorsPlace(function, _text(file), int(line))
        for file, line, function in _FRAME.findall(stack)
    ]
    theirs = (frame for frame in frames if is_servers_file(frame.file))
    return next(theirs, frames[0] if frames else AuthorsPlace())


def _text(escaped: str) -> str:
    """A file's name, in which faulthandler has escaped what is not ASCII."""
    if "\\" not in escaped:
        return escaped
    try:
        return escaped.encode("ascii").decode("unicode_escape")
    except UnicodeError:
        return escaped

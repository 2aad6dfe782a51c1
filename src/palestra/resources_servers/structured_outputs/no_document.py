"""What readers of documents share: their refusal, and how deep they go."""

from typing import Final

MOST_LEVELS: Final = 100
"""Of lists and objects within each other. Validators recurse; no schema of ours comes near."""


class NoDocument(Exception):
    """A text that is no document of its notation, in a sentence for the one who wrote it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

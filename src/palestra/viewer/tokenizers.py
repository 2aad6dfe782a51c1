"""Shows token ids as text, with a tokenizer on this machine."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from palestra.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@final
class TokenTexts:
    """The texts of token ids."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer: Any = tokenizer

    @classmethod
    def load(cls, folder: Path) -> "TokenTexts":
        """Load `tokenizer.json` of a folder. Nothing is downloaded.

        Raises ConfigError: there is none, it cannot be read, or `palestra[tokenizers]` is not
        installed.
        """
        path = folder / "tokenizer.json" if folder.is_dir() else folder
        if not path.is_file():
            raise ConfigError(
                f"--tokenizer: there is no tokenizer.json in {folder}",
                hint="give the folder of the model; nothing is downloaded",
            )
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError(
                "--tokenizer needs the package tokenizers",
                hint="install palestra[tokenizers]",
            ) from error
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare exceptions
            raise ConfigError(f"--tokenizer: {path} cannot be read: {error}") from error

    def texts(self, ids: Sequence[int | None]) -> list[str]:
        """Return the text of each id; the id itself for one that the tokenizer lacks."""
        return [self._text(token_id) for token_id in ids]

    def _text(self, token_id: int | None) -> str:
        if token_id is None or token_id < 0 or self._tokenizer.id_to_token(token_id) is None:
            return f"⟨{json.dumps(token_id)}⟩"
        text: str = self._tokenizer.decode([token_id], skip_special_tokens=False)
        return text

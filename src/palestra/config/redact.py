"""Keep secrets out of everything that a person or a log can read.

A string is a secret when its key contains, as a separate word, `key`, `token`, `password` or
`secret` (or `authorization`, `apikey`): `hf_token`, `apiKey`, but not `max_output_tokens`. YAML
reads a secret of digits as a number: below `api_key`, `password` or `secret` every number is a
secret too, and below another name that ends with a secret word, such as `hf_token`, a long whole
number. A secret's value is masked everywhere else too.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

MASK: Final = "****"

MIN_VALUE_LENGTH: Final = 4
"""Shorter secrets are masked only below a secret name, since their values occur in ordinary words.
"""

MIN_LENGTH_IN_KEYS: Final = 8
"""Least length of a secret that is also masked in mapping keys, so that a key like `name` is kept.
"""

MIN_DIGITS: Final = 8
"""Least digits of a whole number that is a secret below a name such as `token`, which may also have
the id of a token.
"""

_SECRET_WORDS = frozenset({"key", "token", "password", "secret", "authorization", "apikey"})
_NUMBERS_TOO = frozenset({"password", "secret", "authorization", "apikey"})
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_NO_SECRETS = re.compile(r"key[_\-. ]?metrics?|token_id_information", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_NAMED_VALUE = re.compile(r"""([\w.\-]+)(["']?\s*[:=]\s*)(\S.*)""")
# What people write where a key is demanded but none is needed.
_PLACEHOLDERS = frozenset({"auto", "dummy", "empty", "false", "none", "null", "true", "???"})


def is_secret_name(name: object) -> bool:
    """Whether strings below this key are secrets. `name` may have any type; a number is no secret
    name.
    """
    return not _SECRET_WORDS.isdisjoint(_words(name))


def _words(name: object) -> list[str]:
    if not isinstance(name, str):
        return []
    # `key metrics` are the metrics that matter: no lock, no key. `return_token_id_information` is a
    # switch.
    return [word.lower() for word in _WORD.findall(_NO_SECRETS.sub("", name))]


def _least_digits(name: object) -> float:
    """Return the digits from which numbers below this key are secrets; infinity when none is."""
    words = _words(name)
    if not _NUMBERS_TOO.isdisjoint(words) or {"api", "key"} <= {*words}:
        return 0
    return MIN_DIGITS if words and words[-1] in _SECRET_WORDS else math.inf


def find_secrets(tree: Any) -> frozenset[str]:
    """Return the secret values in a tree that are long enough to be masked in any text.

    Besides values with a secret name: the bare token of an `Authorization` value, and the password
    of a URL.
    """
    return frozenset(
        secret
        for value in _secret_values(tree, hidden=False, digits=math.inf)
        for secret in _parts(value)
        if _maskable(secret)
    )


def secrets_in(tree: Any, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the secret values in a tree, including values of environment variables with a secret
    name.

    Example: a header of any name may hold `${oc.env:UPSTREAM_API_KEY}`, whose name marks a secret.
    """
    found_secrets = [
        value
        for name, value in environ.items()
        if is_secret_name(name) and len(value) >= MIN_LENGTH_IN_KEYS and _maskable(value)
    ]
    texts = list(_texts(tree)) if found_secrets else []
    used = {value for value in found_secrets if any(value in text for text in texts)}
    return find_secrets(tree) | used


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for item in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _texts(item)


def _secret_values(value: Any, *, hidden: bool, digits: float) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = hidden or is_secret_name(key)
            least = min(digits, _least_digits(key))
            yield from _secret_values(item, hidden=below, digits=least)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secret_values(item, hidden=hidden, digits=digits)
    elif isinstance(value, str):
        yield from [value] if hidden else _URL_PASSWORD.findall(value)
    elif _is_secret_number(value, digits):
        yield str(value)


def _is_secret_number(value: object, digits: float) -> bool:
    """Whether a value is a number that is a secret from so many digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return digits == 0 or (isinstance(value, int) and abs(value) >= 10 ** (digits - 1))


def _parts(secret: str) -> Iterator[str]:
    """Yield the secret itself and, for a value such as `Bearer abc`, also `abc`."""
    yield secret
    yield secret.strip()
    scheme, _, token = secret.strip().partition(" ")
    if token and " " not in token and scheme.isalpha():
        yield token


def _maskable(secret: str) -> bool:
    return (
        len(secret) >= MIN_VALUE_LENGTH
        and secret.lower() not in _PLACEHOLDERS
        and not set(secret) <= {"*"}
        and not (secret.startswith("${") and secret.endswith("}"))
        and not secret.isspace()
    )


class Redactor:
    """Masks secret values in text: log lines, errors, responses. Cheap to call; safe to share."""

    def __init__(self, secrets: Collection[str]) -> None:
        spellings = {text for secret in secrets if _maskable(secret) for text in _spellings(secret)}
        self._pattern = _any_of(spellings)

    def __call__(self, text: str) -> str:
        """Return `text` with each secret replaced by `****`, including secrets that JSON or a URL
        escapes.
        """
        return self._pattern.sub(MASK, text) if self._pattern else text


def _spellings(secret: str) -> Iterable[str]:
    import json
    from urllib.parse import quote

    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield quote(secret)
    yield quote(secret, safe="")


def _any_of(texts: Collection[str]) -> re.Pattern[str] | None:
    if not texts:
        return None
    # Longest first: a secret that begins another must not leave the other's tail behind.
    return re.compile("|".join(map(_however_quoted, sorted(texts, key=len, reverse=True))))


def _however_quoted(text: str) -> str:
    """Return a pattern that matches `text` at any level of quoting, where each level adds
    backslashes.
    """
    return "".join(
        r"\\+" if char == "\\" else rf"\\*{char}" if char in "\"'/" else re.escape(char)
        for char in text
    )


def redact(value: Any, secrets: Collection[str] = ()) -> Any:
    """Return a copy of a nested structure with secrets masked, by name and by value.

    `secrets` are additional known values. Secrets named in `value` itself are masked too.
    """
    all_secrets = find_secrets(value) | frozenset(secrets)
    in_keys = Redactor([secret for secret in all_secrets if len(secret) >= MIN_LENGTH_IN_KEYS])
    return _Masking(all_secrets, in_keys).mask(value, hidden=False, digits=math.inf)


class _Masking:
    def __init__(self, secrets: Collection[str], keys: Redactor) -> None:
        self._secrets = secrets
        self._values = Redactor(secrets)
        self._keys = keys

    def mask(self, value: Any, *, hidden: bool, digits: float) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, hidden=hidden, digits=digits)
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.mask(item, hidden=hidden, digits=digits) for item in value]
            return items if type(value) is list else _like(value, items)
        if isinstance(value, str):
            return MASK if hidden and value else self._values(value)
        if isinstance(value, bytes):
            return MASK.encode() if hidden and value else self._bytes(value)
        is_secret = _is_secret_number(value, digits) or (
            isinstance(value, int | float) and str(value) in self._secrets
        )
        return MASK if is_secret else value

    def _mapping(self, value: Mapping[Any, Any], *, hidden: bool, digits: float) -> dict[Any, Any]:
        masked: dict[Any, Any] = {}
        for key, item in value.items():
            masked_key = self._keys(key) if isinstance(key, str) else key
            if masked_key != key and masked_key in masked:
                masked_key = f"{masked_key}#{len(masked)}"
            masked[masked_key] = self.mask(
                item,
                hidden=hidden or is_secret_name(key),
                digits=min(digits, _least_digits(key)),
            )
        return masked

    def _bytes(self, value: bytes) -> bytes:
        # surrogateescape carries bytes that are not UTF-8 through unchanged
        text = value.decode("utf-8", "surrogateescape")
        return self._values(text).encode("utf-8", "surrogateescape")


def _like(value: Any, items: list[Any]) -> Any:
    kinds: tuple[type[Any], ...] = (tuple, frozenset, set)
    return next((kind(items) for kind in kinds if isinstance(value, kind)), items)


def masked_texts(value: Any, mask: Callable[[str], str]) -> Any:
    """Return a JSON value with `mask` applied to all its texts. Names of fields stay."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {name: masked_texts(inner, mask) for name, inner in value.items()}
    return [masked_texts(inner, mask) for inner in value] if isinstance(value, list) else value


def mask_line(line: str) -> str:
    """Return one line of config text with the value after a secret name masked, for error messages.

    For text that cannot be parsed: everything after `api_key:` or `token=` is masked.
    """
    for match in _NAMED_VALUE.finditer(line):
        if is_secret_name(match[1]):
            return f"{line[: match.start(3)]}{MASK}"
    return line

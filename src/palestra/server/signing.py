"""Sign bytes that a client keeps and returns, so that only this server's own are accepted.

The signatures are those of the package `itsdangerous`, which Starlette's session middleware uses.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Final, final

_SEPARATOR: Final = b"."
"""Stands between the value and its signature, whose alphabet does not contain it."""


class BadSignature(ValueError):
    """Raised for bytes that this signer did not sign."""


@final
class Signer:
    """Appends an HMAC signature to bytes, and checks it.

    `purpose`: a signature is not accepted by a signer with the same secret and another purpose.
    """

    def __init__(self, secret: str, *, purpose: str) -> None:
        # Derived once: for each signature it costs as much as the signature.
        self._key = hashlib.sha1(
            f"{purpose}signer{secret}".encode(), usedforsecurity=False
        ).digest()

    def sign(self, value: bytes) -> bytes:
        """Return `value` with its signature."""
        return value + _SEPARATOR + self._signature(value)

    def unsign(self, signed: bytes) -> bytes:
        """Return the value without its signature. Raises BadSignature: the signature is missing or
        wrong.
        """
        value, separator, signature = signed.rpartition(_SEPARATOR)
        if not separator or not hmac.compare_digest(signature, self._signature(value)):
            raise BadSignature("the signature is missing or wrong")
        return value

    def _signature(self, value: bytes) -> bytes:
        # One call of OpenSSL, which is faster than an object of `hmac`.
        return urlsafe_b64encode(hmac.digest(self._key, value, "sha1")).rstrip(b"=")

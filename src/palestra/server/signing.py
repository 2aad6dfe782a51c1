"""Sign bytes that a client keeps and returns, so that only this server's own are accepted."""

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
    """Appends an HMAC-SHA256 signature to bytes, and checks it.

    `purpose`: signatures of signers with the same secret and another purpose are not accepted.
    """

    def __init__(self, secret: str, *, purpose: str) -> None:
        # Derived once: for each signature it costs as much as the signature.
        self._key = hmac.digest(secret.encode(), purpose.encode(), hashlib.sha256)

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
        return urlsafe_b64encode(hmac.digest(self._key, value, hashlib.sha256)).rstrip(b"=")

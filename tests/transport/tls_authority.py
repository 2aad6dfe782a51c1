"""A certificate authority of the tests' own, and what it certifies."""

import ssl
from functools import cache
from pathlib import Path

import trustme


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_tls(
    *names: str, issuer: trustme.CA | None = None, protocol: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    """What a server of these names listens with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = (issuer or authority()).issue_cert(*(names or ("127.0.0.1", "::1", "localhost")))
    certificate.configure_cert(context)
    if protocol is not None:
        context.maximum_version = protocol
    return context


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Files with a certificate for this machine and its key, as servers' settings name them."""
    issued = authority().issue_cert("127.0.0.1", "localhost")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return chain, key

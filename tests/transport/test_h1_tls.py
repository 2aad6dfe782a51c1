"""Who is believed to be the server, what is said when it is not, and what TLS changes."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from http_peers import Script, both_loops, opened, plain, request
from tls_authority import authority, server_tls
from transport_worlds import answering, misbehaving

from palestra.errors import DeadlineExceeded, Layer, WrongSetting
from palestra.transport import CertificateRejected, ConnectionFailed, HttpReply


def asked(way: Any, tls: ssl.SSLContext, host: str = "127.0.0.1") -> HttpReply:
    """One request by HTTPS to a server that listens so."""

    async def scenario() -> HttpReply:
        async with misbehaving(answering(plain()), tls) as url, opened() as http:
            port = url.rpartition(":")[2]
            return await http.send(request(f"https://{host}:{port}/", timeout_s=10))

    return way.run(scenario())


@both_loops
def test_the_authority_in_ssl_cert_file_is_trusted(way: Any) -> None:
    assert asked(way, server_tls()).body == b"ok"


@both_loops
def test_a_certificate_of_nobody_known_is_a_wrong_setting_with_what_helps(way: Any) -> None:
    with pytest.raises(CertificateRejected, match="certificate verify failed") as caught:
        asked(way, server_tls("127.0.0.1", issuer=trustme.CA()))

    assert isinstance(caught.value, WrongSetting)
    assert caught.value.layer is Layer.CONFIG
    assert "https://127.0.0.1:" in caught.value.message
    assert "SSL_CERT_FILE" in caught.value.hint


@both_loops
def test_a_certificate_for_another_name_is_rejected(way: Any) -> None:
    with pytest.raises(CertificateRejected, match=r"mismatch|not valid for"):
        asked(way, server_tls("elsewhere.example"))


@both_loops
def test_without_the_authoritys_file_its_servers_are_not_trusted(
    way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))

    with pytest.raises(CertificateRejected):
        asked(way, server_tls())


@both_loops
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
def test_a_name_is_checked_as_a_name(way: Any, host: str) -> None:
    assert asked(way, server_tls(), host).body == b"ok"


@both_loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(way: Any, version: ssl.TLSVersion) -> None:
    assert asked(way, server_tls("127.0.0.1", protocol=version)).body == b"ok"


@both_loops
def test_what_speaks_no_tls_is_a_failed_connection(way: Any) -> None:
    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def scenario() -> None:
        async with misbehaving(at_once) as url, opened() as http:
            await http.send(request(url.replace("http:", "https:"), timeout_s=10))

    with pytest.raises(ConnectionFailed, match="WRONG_VERSION_NUMBER") as caught:
        way.run(scenario())

    assert not caught.value.was_sent
    assert "HTTPS" in caught.value.hint


@both_loops
def test_a_handshake_that_hangs_ends_at_the_deadline(way: Any) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario() -> None:
        async with misbehaving(silent) as url, opened() as http:
            await http.send(request(url.replace("http:", "https:"), timeout_s=0.2))

    with pytest.raises(DeadlineExceeded, match="no connection by then"):
        way.run(scenario())


@both_loops
def test_a_client_that_the_server_asks_for_a_certificate_says_so(way: Any) -> None:
    tls = server_tls("127.0.0.1", protocol=ssl.TLSVersion.TLSv1_2)
    authority().configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    try:
        with pytest.raises(ConnectionFailed, match=r"SSL|reset|closed it"):
            asked(way, tls)
    finally:
        tls.verify_mode = ssl.CERT_NONE


@both_loops
def test_one_host_with_and_without_tls_is_two(way: Any) -> None:
    script = Script([plain(b"1"), plain(b"2")])

    async def scenario() -> int:
        async with (
            misbehaving(script) as bare,
            misbehaving(script, server_tls()) as secured,
            opened() as http,
        ):
            await http.send(request(bare))
            await http.send(request(secured))
            return len(http._opened)

    assert way.run(scenario()) == 2

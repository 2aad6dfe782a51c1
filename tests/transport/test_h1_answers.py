"""The reader gives the same reply however the network cut the bytes, or says what is wrong."""

import gzip
import itertools
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.transport import HttpReply
from palestra.transport.h1 import answers
from palestra.transport.h1.answers import AnswerReader, Malformed

HEADERS = b"Content-Type: application/json\r\nSet-Cookie: a=1; path=/\r\nSet-Cookie: b=2\r\n"
CHUNKS = b"4\r\nWiki\r\n5;x=y\r\npedia\r\n0\r\nTrailer: t\r\nSet-Cookie: c=3\r\n\r\n"
WHOLE = {
    "length": b"HTTP/1.1 200 OK\r\n" + HEADERS + b"Content-Length: 9\r\n\r\nWikipedia",
    "chunks": b"HTTP/1.1 200 OK\r\n" + HEADERS + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 OK\r\n" + HEADERS + b"Content-Length: 9\r\n\r\nWikipedia",
    "gzip": b"HTTP/1.1 200 OK\r\n"
    + HEADERS
    + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (len(gzip.compress(b"Wikipedia", mtime=0)), gzip.compress(b"Wikipedia", mtime=0)),
}
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n" + HEADERS + b"\r\nWikipedia"


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
    return [raw[a:b] for a, b in itertools.pairwise(marks)]


def read(*data: bytes, bodiless: bool = False) -> HttpReply | None:
    reader = AnswerReader()
    reader.expect(bodiless)
    for piece in data:
        reply = reader.feed(piece)
        if reply is not None:
            return reply
    return None


@pytest.mark.parametrize("kind", WHOLE)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_cuts_change_nothing(kind: str, cuts: list[int]) -> None:
    found = read(*pieces(WHOLE[kind], cuts))

    assert found is not None
    assert (found.status, found.body) == (200, b"Wikipedia")
    assert found.headers["content-type"] == "application/json"
    assert found.cookies == {"a": "1", "b": "2"}
    assert not {"link", "trailer"} & found.headers.keys()


@pytest.mark.parametrize("kind", WHOLE)
def test_no_beginning_of_an_answer_is_an_answer(kind: str) -> None:
    for end in range(len(WHOLE[kind])):
        reader = AnswerReader()
        assert reader.feed(WHOLE[kind][:end]) is None if end else True
        assert reader.end() is None
        assert reader.cut_off()


@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_without_a_length_the_peers_end_is_the_end(cuts: list[int]) -> None:
    reader = AnswerReader()
    assert all(reader.feed(piece) is None for piece in pieces(UNTIL_THE_END, cuts))

    found = reader.end()

    assert found is not None
    assert found.body == b"Wikipedia"
    assert not reader.reusable


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_rubbish_is_malformed_or_unfinished_and_nothing_else(
    rubbish: list[bytes], bodiless: bool
) -> None:
    reader = AnswerReader()
    reader.expect(bodiless)
    with suppress(Malformed):
        for piece in rubbish:
            if reader.feed(piece) is not None:
                break
        reader.end()


@given(
    st.sampled_from([*WHOLE.values(), UNTIL_THE_END]),
    st.integers(0, 10_000),
    st.binary(min_size=1, max_size=4),
)
def test_a_damaged_answer_is_malformed_unfinished_or_another_answer(
    raw: bytes, at: int, damage: bytes
) -> None:
    at %= len(raw)
    with suppress(Malformed):
        read(raw[:at] + damage + raw[at + len(damage) :])


@given(st.lists(st.sampled_from([*WHOLE.values()]), min_size=2, max_size=5))
def test_one_reader_reads_answer_after_answer(raws: list[bytes]) -> None:
    reader = AnswerReader()
    for raw in raws:
        reader.expect()
        found = reader.feed(raw)
        assert found is not None
        assert found.body == b"Wikipedia"
        assert reader.reusable


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize("more", [b"H", b"GARBAGE", OK, b"\0"])
def test_what_follows_an_answer_spoils_its_connection_only(more: bytes) -> None:
    reader = AnswerReader()

    found = reader.feed(OK + more)

    assert found is not None
    assert found.body == b"ok"
    assert not reader.reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
)
def test_an_answer_may_be_its_connections_last(raw: bytes) -> None:
    reader = AnswerReader()

    assert reader.feed(raw)
    assert not reader.reusable


def test_an_identity_transfer_encoding_is_none() -> None:
    reader = AnswerReader()

    assert reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok") is None
    reply = reader.end()
    assert reply is not None
    assert reply.body == b"ok"


def test_http_1_0_may_ask_to_keep_its_connection() -> None:
    reader = AnswerReader()

    assert reader.feed(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
    assert reader.reusable


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", r"Expected HTTP/.*SSH-2\.0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "transfer-encoding"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            "transfer-encoding is 'gzip, chunked'",
        ),
        (b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741825\r\n\r\n", "longer than 1073741824"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(raw: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        read(raw)


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(Malformed, match="head does not end within 262144 bytes"):
        read(b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"x" * 4000] * 100)


def test_interim_answers_without_end_are_refused() -> None:
    with pytest.raises(Malformed, match="head does not end"):
        read(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 100)


def test_a_body_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BODY_BYTES", 1000)

    with pytest.raises(Malformed, match="body does not end within 1000 bytes"):
        read(b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 4096] * 100)


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BODY_BYTES", 1_000_000)

    with pytest.raises(Malformed, match="longer than 1000000 bytes"):
        answers.decoded(gzip.compress(bytes(2_000_000)), "gzip")


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        (gzip.compress(b"ok", mtime=0), "gzip"),
        (gzip.compress(b"ok", mtime=0), "X-GZip"),
        (gzip.compress(b"o", mtime=0) + gzip.compress(b"k", mtime=0), "gzip"),
        (zlib.compress(b"ok"), "deflate"),
        (gzip.compress(zlib.compress(b"ok"), mtime=0), "deflate, gzip"),
        (b"ok", "identity"),
    ],
)
def test_what_a_server_encoded_unasked_is_decoded(body: bytes, codings: str) -> None:
    assert answers.decoded(body, codings) == b"ok"


@pytest.mark.parametrize(
    ("body", "codings", "problem"),
    [
        (gzip.compress(b"ok", mtime=0)[:-3], "gzip", "cut off"),
        (b"ok", "gzip", "broken"),
        (b"ok", "br", "content-encoding is br, which was not requested"),
    ],
)
def test_what_cannot_be_decoded_is_malformed(body: bytes, codings: str, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        answers.decoded(body, codings)


def test_a_header_that_is_no_text_survives() -> None:
    found = read(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=\xe9\r\nContent-Length: 0\r\n\r\n")

    assert found is not None
    assert found.cookies["a"].encode("utf-8", "surrogateescape") == b"\xe9"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "before the first byte"),
        (b"HTTP/1.1 2", "after 10 bytes, within the answer's head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nWiki", "after 4 of 9 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\nWiki", "after 4 of an unknown number of bytes"),
    ],
)
def test_how_far_an_answer_had_come_is_said(data: bytes, words: str) -> None:
    reader = AnswerReader()
    if data:
        reader.feed(data)

    assert words in reader.cut_off()

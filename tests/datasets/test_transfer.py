"""How long trouble is put up with, and how a file comes to its place."""

import socket
from pathlib import Path

import pytest

from palestra.cli.transfers import patience_of
from palestra.datasets.transfer.files import Digest, arriving, sha256_of
from palestra.datasets.transfer.patience import TransferPatience, Trouble
from palestra.errors import InfraError, InputDataError


class Line:
    """A connection that breaks, and may move bytes before it does."""

    def __init__(self, *, breaks: int, moves: int) -> None:
        self.now = 0.0
        self.moved = 0
        self.tries = 0
        self._breaks, self._moves = breaks, moves

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def attempt(self) -> str:
        self.tries += 1
        self.moved += self._moves
        if self.tries <= self._breaks:
            raise ConnectionResetError
        return "whole"

    def insist(self, deadline_s: float) -> str:
        patience = TransferPatience(deadline_s, clock=lambda: self.now, sleep=self.sleep)
        return patience.insist(
            "a file", self.attempt, lambda _: Trouble("it broke"), moved=lambda: self.moved
        )


def test_bytes_that_move_end_a_trouble() -> None:
    line = Line(breaks=50, moves=1)

    assert line.insist(deadline_s=2.0) == "whole"


def test_the_hint_names_the_setting_only_where_there_is_one() -> None:
    hints = []
    for setting in ("", "network_deadline_s"):
        line = Line(breaks=50, moves=0)
        patience = TransferPatience(
            2.0, clock=lambda line=line: line.now, sleep=line.sleep, setting=setting
        )
        with pytest.raises(InfraError) as error:
            patience.insist("a file", line.attempt, lambda _: Trouble("it broke"))
        hints.append("network_deadline_s" in error.value.hint)

    assert hints == [False, True]


def test_trouble_without_bytes_ends_at_the_deadline() -> None:
    line = Line(breaks=50, moves=0)

    with pytest.raises(InfraError, match=r"a file: it broke; gave up after \d+ tries"):
        line.insist(deadline_s=20.0)

    assert line.now <= 20.0


def test_a_name_that_cannot_be_resolved_ends_trouble_sooner() -> None:
    line, notices = Line(breaks=50, moves=0), list[str]()
    patience = TransferPatience(
        120.0, clock=lambda: line.now, sleep=line.sleep, tell=notices.append
    )

    def connect() -> None:
        try:
            raise socket.gaierror(-2, "Name or service not known")
        except OSError as error:
            raise ConnectionError from error

    with pytest.raises(InfraError) as caught:
        patience.insist("a file", connect, lambda _: Trouble("it broke"))

    assert line.now <= 30.0
    assert notices == ["a file: it broke; trying again for 30 s at most …"]
    assert "name of the host" in caught.value.hint


class Names(Line):
    """A connection that is refused until `unresolved_from`, and then has a name that is not known
    until `answers_from`, both in seconds.
    """

    def __init__(self, unresolved_from: float, answers_from: float) -> None:
        super().__init__(breaks=0, moves=0)
        self._unresolved_from, self._answers_from = unresolved_from, answers_from

    def attempt(self) -> str:
        if self.now < self._unresolved_from:
            raise ConnectionResetError
        if self.now < self._answers_from:
            raise ConnectionError from socket.gaierror(-3, "Temporary failure")
        return "whole"


def test_a_name_that_is_unknown_for_a_moment_does_not_end_an_older_trouble() -> None:
    assert Names(60.0, 80.0).insist(deadline_s=600.0) == "whole"


def test_a_deadline_that_the_user_chose_holds_for_unknown_names() -> None:
    line = Names(0.0, 80.0)
    patience = TransferPatience(600.0, clock=lambda: line.now, sleep=line.sleep, is_chosen=True)

    assert patience.insist("a file", line.attempt, lambda _: Trouble("it broke")) == "whole"


def test_a_deadline_is_chosen_once_it_is_typed() -> None:
    assert not patience_of({}).is_chosen
    assert patience_of({"network_deadline_s": 120.0}).is_chosen


def test_what_no_other_try_would_mend_is_raised_at_once() -> None:
    line = Line(breaks=1, moves=0)
    patience = TransferPatience(20.0, clock=lambda: line.now, sleep=line.sleep)

    with pytest.raises(ConnectionResetError):
        patience.insist("a file", line.attempt, lambda _: None)

    assert line.now == 0.0


def test_a_trouble_is_said_when_it_begins_with_the_time_left() -> None:
    line, told = Line(breaks=3, moves=0), list[str]()
    patience = TransferPatience(20.0, clock=lambda: line.now, sleep=line.sleep, tell=told.append)

    patience.insist("a file", line.attempt, lambda _: Trouble("it broke"))

    assert told == ["a file: it broke; trying again for 20 s at most …"]


def test_two_processes_do_not_fetch_one_file(tmp_path: Path) -> None:
    digest = Digest("a" * 64)

    with (
        arriving(tmp_path / "rows.jsonl", digest, 3),
        pytest.raises(InputDataError, match="is being downloaded by another process"),
        arriving(tmp_path / "rows.jsonl", digest, 3),
    ):
        pytest.fail("it was fetched twice")


def test_a_file_keeps_its_old_bytes_until_the_new_ones_are_whole(tmp_path: Path) -> None:
    destination = tmp_path / "rows.jsonl"
    destination.write_bytes(b"new")
    digest = Digest(sha256_of(destination))
    destination.write_bytes(b"old")

    with arriving(destination, digest, 3) as part:
        part.path.write_bytes(b"ne")
        with pytest.raises(InfraError, match="2 bytes arrived of 3"):
            part.put_in_place()
    assert destination.read_bytes() == b"old"

    with arriving(destination, digest, 3) as part:
        part.path.write_bytes(b"new")
        part.put_in_place()
    assert destination.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]

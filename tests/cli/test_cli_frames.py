"""What the views say, at any width."""

from dataclasses import replace

import pytest
from rich.text import Text

from palestra.cli.frames import (
    ASCII,
    age,
    clock,
    frame,
    per_second,
    plain_line,
    short,
    shorten,
    summary,
)
from palestra.cli.snapshot import Slow, Snapshot

SLOW = Slow(
    rollout="1234:0",
    attempt=2,
    attempts=3,
    agent="math_with_judge_simple_agent",
    phase="model",
    awaiting="policy_model /v1/responses",
    phase_s=45.0,
    age_s=195.0,
)
NOW = Snapshot(
    elapsed_s=161.0,
    requested=10_000,
    scored=6_093,
    truncated=12,
    failed=27,
    classes=(("infra_error", 20), ("timeout", 7)),
    in_flight=1_024,
    limit=None,
    rate=41.3,
    overall_rate=38.0,
    left_s=94.0,
    mean_reward=0.4312,
    tokens=3_120_000,
    token_rate=20_432.0,
    repeated=31,
    retries=12,
    retry_reason="policy_model answered 503",
    retry_plan="",
    last_failure="77:2 infra_error: connection refused",
    slowest=(SLOW,) * 5,
)


def texts(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def test_eighty_columns_tell_everything() -> None:
    assert texts(frame(replace(NOW, slowest=(SLOW,)), 79, 24)) == [
        " 61.2% ━━━━━━━━━━━━━━━━━━─────────────  6,120 of 10,000 done in 2:41, 1:34 left",
        "in flight 1,024 · scored 6,093 (12 truncated) · failed 27: infra_error 20, tim…",
        "41.3/s (38.0/s overall) · mean reward 0.431 · 3.1M output tokens (20.4k/s)",
        "31 attempts repeated · 12 requests retried · policy_model answered 503",
        "last failure 77:2 infra_error: connection refused",
        "",
        "oldest  try  agent                    phase  awaiting                 for   age",
        "1234:0  2/3  math_with_j…imple_agent  model  policy_mode…1/responses  45s  3:15",
    ]


@pytest.mark.parametrize("width", range(1, 220, 3))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = replace(SLOW, agent="漢字の名前" * 9, awaiting="tool 検索 of " + "x" * 90)
    now = replace(NOW, last_failure="0:0 " + "長い" * 200, slowest=(wide, SLOW))

    assert max(line.cell_len for line in frame(now, width, 24)) <= width


@pytest.mark.parametrize("height", [1, 2, 5, 9, 11])
def test_a_low_terminal_keeps_the_first_lines(height: int) -> None:
    lines = frame(NOW, 79, height)

    assert len(lines) <= height
    assert lines[0].plain.lstrip().startswith("61.2%")


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (120, ["oldest", "try", "agent", "phase", "awaiting", "for", "age"]),
        (40, ["oldest", "try", "phase", "awaiting", "age"]),
        (30, ["oldest", "awaiting", "age"]),
        (14, ["oldest", "age"]),
    ],
)
def test_a_narrow_table_has_fewer_columns(width: int, titles: list[str]) -> None:
    [header] = [line for line in texts(frame(NOW, width, 24)) if line.startswith("oldest")]

    assert header.split() == titles


def test_names_cannot_steer_the_terminal() -> None:
    evil = replace(SLOW, agent="a\x1b[2J", awaiting="tool x\r\nfaked of env")
    shown = "\n".join(texts(frame(replace(NOW, slowest=(evil,)), 120, 24)))

    assert r"a\x1b[2J" in shown
    assert r"x\x0d\nfaked of env" in shown


def test_failures_are_said_in_words_not_in_colour_alone() -> None:
    lines = texts(frame(NOW, 120, 24))

    assert "failed 27: infra_error 20, timeout 7" in lines[1]


def test_a_terminal_without_unicode_gets_none() -> None:
    assert "".join(texts(frame(NOW, 60, 24, glyphs=ASCII))).isascii()


def test_not_all_is_done_before_the_last_one_is() -> None:
    nearly = replace(NOW, requested=100_000, scored=99_999, failed=0)

    assert frame(nearly, 79, 24)[0].plain.startswith(" 99.9%")


def test_a_run_that_asked_for_nothing_is_done() -> None:
    nothing = replace(NOW, requested=0, scored=0, failed=0)

    assert frame(nothing, 79, 24)[0].plain.startswith("100.0%")


def test_the_plain_line_says_what_is_awaited_until_the_first_rollout_ends() -> None:
    young = (replace(SLOW, age_s=3.0, phase_s=2.0),)
    nothing_yet = replace(NOW, scored=0, failed=0, slowest=young)

    assert "oldest: rollout 1234:0 in flight 3.0s, awaiting policy_model" in plain_line(nothing_yet)


def test_the_plain_line_names_no_rollout_that_has_just_begun() -> None:
    begun = replace(NOW, scored=0, failed=0, slowest=(replace(SLOW, age_s=0.0, phase_s=0.0),))

    assert "oldest" not in plain_line(begun)
    assert "oldest" not in plain_line(replace(begun, slowest=()))


def test_the_plain_line_names_the_oldest_only_when_it_is_old() -> None:
    young = replace(NOW, slowest=(replace(SLOW, age_s=29.0),))

    assert "oldest" not in plain_line(young)
    assert plain_line(NOW) == (
        "6120/10000 done, 1024 in flight, 27 failed (infra_error 20, timeout 7), "
        "41.3/s (38.0/s overall), 1:34 left, mean reward 0.431, 3.1M tokens (20.4k/s), "
        "31 attempts repeated, 12 requests retried, "
        "oldest: rollout 1234:0 in flight 3:15, awaiting policy_model /v1/responses for 45s"
    )


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 9, "short"),
        ("abcdefghij", 5, "ab…ij"),
        ("abcdefghij", 1, "…"),
        ("漢字漢字", 5, "漢…字"),
    ],
)
def test_a_long_name_loses_its_middle(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown


def test_numbers_are_short() -> None:
    assert [clock(s) for s in (9, 161, 3723, 273_900)] == ["0:09", "2:41", "1:02:03", "3 d 04:05"]
    assert [age(s) for s in (3.24, 9.97, 45, 99.6)] == ["3.2s", "10s", "45s", "1:39"]
    assert [short(n) for n in (0, 950, 20_432, 100_200, 3_120_000)] == [
        *("0", "950", "20.4k", "100k", "3.1M")
    ]
    assert [per_second(r) for r in (0, 0.05, 12.34, 1234.5)] == [
        *("0.0/s", "3.0/min", "12.3/s", "1,234/s")
    ]


def test_a_line_says_what_is_waited_for_and_until_when() -> None:
    plan = "next try in 28 s, giving up at 14:03:10"
    now = replace(NOW, retries=7, retry_reason="x (http://e) answered 429", retry_plan=plan)

    assert f"7 requests retried, x (http://e) answered 429, {plan}" in plain_line(now)
    assert plan in "\n".join(line.plain for line in summary(now, 200))


def test_a_stall_is_shown_in_the_line_and_in_the_frame() -> None:
    stall = "nothing has ended for 3 min 10 s; 8 wait for the endpoint of policy_model"
    now = replace(NOW, left_s=None, stall=stall)

    assert stall in plain_line(now)
    assert stall in texts(frame(now, 100, 24))

"""Render a snapshot: as one plain line, or as the lines of a live frame.

Everything fits the given width: a line that is too long loses its last parts, a table its least
important columns, a name its middle. Colour only repeats what the words say.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from palestra.analysis import amount
from palestra.cli.escaping import one_line
from palestra.cli.snapshot import Slow, Snapshot

OLD_S = 30.0
"""The age from which the plain line names the oldest rollout."""
YOUNG_S = 1.0
"""The same before the first rollout has ended. Each one is younger at the very beginning."""
WIDEST_BAR = 60
NARROWEST_BAR = 10


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that some terminals lack."""

    done: str = "━"
    left: str = "─"
    between: str = " · "
    cut: str = "…"


ASCII = Glyphs(done="#", left="-", between=" | ", cut="..")
UNICODE = Glyphs()


# Words and numbers


def clock(seconds: float) -> str:
    """Return a duration as `0:09`, `2:41`, `1:02:03` or `3 d 04:05`."""
    whole_seconds = int(seconds)
    minutes, s = divmod(whole_seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days} d {h:02}:{m:02}"
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def age(seconds: float) -> str:
    """Return a short duration in seconds, a longer one in the format of `clock`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    return f"{seconds:.0f}s" if seconds < 99.5 else clock(seconds)


def short(number: float) -> str:
    """Return a number with three digits and a unit: `950`, `20.4k`, `3.1M`."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5:
            return f"{number:.0f}{unit}" if not unit or number >= 99.95 else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f}T"


def per_second(rate: float) -> str:
    """Return a rate with few digits: per second, or per minute when it is below one per second."""
    if rate and rate < 0.995:
        return f"{rate * 60:.1f}/min"
    return f"{rate:,.0f}/s" if rate >= 99.95 else f"{rate:.1f}/s"


def shorten(text: str, width: int, cut: str = UNICODE.cut) -> str:
    """Return `text` in at most `width` cells; a longer text loses its middle."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(cut)
    if room <= 0:
        return cut[:width]
    head, tail = set_cell_size(text, (room + 1) // 2), set_cell_size(text[::-1], room // 2)[::-1]
    return head + cut + tail


# One plain line


def plain_line(now: Snapshot) -> str:
    """Return the collection in one line: done, in flight, failed, rates, time left, reward, and so
    on.
    """
    parts = [
        f"{now.done}/{now.requested} done",
        _in_flight(now),
        f"{now.failed} failed" + (f" ({_classes(now)})" if now.failed else ""),
        f"{per_second(now.rate)} ({per_second(now.overall_rate)} overall)",
    ]
    if now.left_s is not None:
        parts.append(f"{clock(now.left_s)} left")
    parts += [now.stall] * bool(now.stall)
    if now.mean_reward is not None:
        parts.append(f"mean reward {now.mean_reward:.3f}")
    if now.tokens:
        parts.append(f"{short(now.tokens)} tokens ({short(now.token_rate)}/s)")
    if now.repeated:
        parts.append(amount(now.repeated, "attempt") + " repeated")
    if now.retries:
        parts.append(amount(now.retries, "request") + " retried")
    if now.retry_plan:
        parts.append(one_line(f"{now.retry_reason}, {now.retry_plan}"))
    parts += map(one_line, now.standing_still)
    if now.slowest and now.slowest[0].age_s > (OLD_S if now.done else YOUNG_S):
        parts.append(_oldest(now.slowest[0]))
    return ", ".join(parts)


def _oldest(slow: Slow) -> str:
    return (
        f"oldest: rollout {slow.rollout} in flight {age(slow.age_s)}, "
        f"awaiting {_waits_for(slow)} for {age(slow.phase_s)}"
    )


def _in_flight(now: Snapshot) -> str:
    limit = f" of {now.limit} allowed" if now.limit is not None else ""
    return f"{now.in_flight} in flight{limit}"


def _classes(now: Snapshot) -> str:
    return ", ".join(f"{name} {count}" for name, count in now.classes)


def _waits_for(slow: Slow) -> str:
    return one_line(slow.awaiting or slow.phase)


# The live frame


def frame(now: Snapshot, width: int, height: int, *, glyphs: Glyphs = UNICODE) -> list[Text]:
    """Return the lines of the live view: at most `height` lines, none wider than `width`."""
    lines = summary(now, width, glyphs=glyphs)
    table = _table(now.slowest, width, glyphs)
    if table and len(lines) + 1 + len(table) <= height:
        table.insert(0, Text())
    return [*lines, *table][: max(1, height)]


def summary(now: Snapshot, width: int, *, glyphs: Glyphs = UNICODE) -> list[Text]:
    """Return the frame without the rollouts in flight. It stays on the screen at the end."""
    parts_of_lines = [_ended_parts(now), _pace(now), _repeats(now)]
    lines = [
        _bar(now, width, glyphs),
        *(_fitting(parts, width, glyphs) for parts in parts_of_lines),
    ]
    lines += [
        Text(_ending(one_line(sentence), width, glyphs.cut), "bold red")
        for sentence in filter(None, (now.stall, *now.standing_still))
    ]
    if now.last_failure:
        text = one_line(f"last failure {now.last_failure}")
        lines.append(Text(_ending(text, width, glyphs.cut)))
    return [line for line in lines if line]


def _bar(now: Snapshot, width: int, glyphs: Glyphs) -> Text:
    share = now.done / now.requested if now.requested else 1.0
    # Never 100 % before the last one has ended.
    percent = f"{int(share * 1000) / 10:5.1f}%"
    counts = f"{now.done:,} of {now.requested:,} done in {clock(now.elapsed_s)}"
    time_left = f", {clock(now.left_s)} left" if now.left_s is not None else ""
    for words in (counts + time_left, counts, f"{now.done:,}/{now.requested:,}"):
        room = min(WIDEST_BAR, width - len(percent) - len(words) - 3)
        if room >= NARROWEST_BAR:
            filled = int(share * room)
            return Text.assemble(
                (percent, "bold"),
                " ",
                (glyphs.done * filled, "green"),
                glyphs.left * (room - filled),
                "  ",
                words,
            )
    return Text(_ending(f"{percent} {now.done:,}/{now.requested:,}", width, glyphs.cut))


Part = str | tuple[str, str]


def _ended_parts(now: Snapshot) -> list[Part]:
    cut = f" ({now.truncated:,} truncated)" if now.truncated else ""
    failed = f"failed {now.failed:,}" + (f": {_classes(now)}" if now.failed else "")
    limit = f" of {now.limit:,} allowed" if now.limit is not None else ""
    return [
        f"in flight {now.in_flight:,}{limit}",
        f"scored {now.scored:,}{cut}",
        (failed, "bold red") if now.failed else failed,
    ]


def _pace(now: Snapshot) -> list[Part]:
    reward = "none yet" if now.mean_reward is None else f"{now.mean_reward:.3f}"
    parts: list[Part] = [
        f"{per_second(now.rate)} ({per_second(now.overall_rate)} overall)",
        f"mean reward {reward}",
    ]
    if now.tokens:
        parts.append(f"{short(now.tokens)} output tokens ({short(now.token_rate)}/s)")
    return parts


def _repeats(now: Snapshot) -> list[Part]:
    parts: list[Part] = []
    if now.repeated:
        parts.append(amount(now.repeated, "attempt") + " repeated")
    if now.retries:
        parts.append(amount(now.retries, "request") + " retried")
        parts.append(one_line(f"{now.retry_plan}: {now.retry_reason}".removeprefix(": ")))
    return parts


def _fitting(parts: Iterable[Part], width: int, glyphs: Glyphs) -> Text:
    """Return as many parts as fit in one line; the first part that does not fit is cut, or left
    out.
    """
    line = Text()
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        before = glyphs.between if line else ""
        room = width - line.cell_len - len(before)
        if room < min(cell_len(words), 12):
            break
        line.append(before)
        line.append(_ending(words, room, glyphs.cut), style or None)
    return line


def _ending(text: str, width: int, cut: str) -> str:
    """Return `text` in at most `width` cells; a longer text loses its end."""
    if cell_len(text) <= width:
        return text
    return (set_cell_size(text, max(0, width - cell_len(cut))) + cut)[: max(0, width)]


# The table of the oldest rollouts


@dataclass(frozen=True, slots=True)
class SlowColumn:
    """One column of the table of the oldest rollouts.

    `least`: its smallest width. `gives_way`: columns with a higher number are removed first.
    """

    title: str
    cells: tuple[str, ...]
    least: int | None = None
    """The smallest width in cells. None: a column of numbers, which is never cut."""
    gives_way: int = 0

    @property
    def wanted(self) -> int:
        """The width in cells at which nothing is cut."""
        return max(map(cell_len, (self.title, *self.cells)))


def _columns(slowest: Sequence[Slow]) -> list[SlowColumn]:
    def cells(of: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(one_line, of))

    return [
        SlowColumn("oldest", cells(s.rollout for s in slowest), 7),
        SlowColumn("try", cells(f"{s.attempt}/{s.attempts}" for s in slowest), gives_way=3),
        SlowColumn("agent", cells(s.agent for s in slowest), 8, gives_way=4),
        SlowColumn("phase", cells(s.phase for s in slowest), 6, gives_way=2),
        SlowColumn("awaiting", cells(_thing(s) for s in slowest), 12, gives_way=1),
        SlowColumn("for", cells(age(s.phase_s) for s in slowest), gives_way=5),
        SlowColumn("age", cells(age(s.age_s) for s in slowest)),
    ]


def _thing(slow: Slow) -> str:
    # The column beside says already that it is a tool, or the model server.
    return slow.awaiting.removeprefix("tool ").removeprefix("the endpoint of ") or "-"


def _table(slowest: Sequence[Slow], width: int, glyphs: Glyphs) -> list[Text]:
    if not slowest:
        return []
    columns = _columns(slowest)
    while len(columns) > 1 and _least(columns) > width:
        columns.remove(max(columns, key=lambda column: column.gives_way))
    if _least(columns) > width:
        return []
    widths = _widths(columns, width)
    rows: Iterable[Sequence[str]] = zip(*(column.cells for column in columns), strict=True)
    header = _row(columns, [column.title for column in columns], widths, glyphs)
    header.stylize("bold")
    return [header, *(_row(columns, row, widths, glyphs) for row in rows)]


def _least(columns: Sequence[SlowColumn]) -> int:
    narrow = (c.wanted if c.least is None else min(c.least, c.wanted) for c in columns)
    return sum(narrow) + 2 * (len(columns) - 1)


def _widths(columns: Sequence[SlowColumn], width: int) -> list[int]:
    """Return the width of each column: its wanted width, with the widest columns narrowed until all
    fit.
    """
    widths = [column.wanted for column in columns]
    excess = sum(widths) + 2 * (len(columns) - 1) - width
    while excess > 0:
        candidates = [
            i
            for i, column in enumerate(columns)
            if column.least is not None and widths[i] > column.least
        ]
        if not candidates:
            break
        widths[max(candidates, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _row(
    columns: Sequence[SlowColumn],
    cells: Sequence[str],
    widths: Sequence[int],
    glyphs: Glyphs,
) -> Text:
    cells_shown: list[str] = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        text = shorten(cell, width, glyphs.cut)
        fill = " " * (width - cell_len(text))
        cells_shown.append(fill + text if column.least is None else text + fill)
    return Text("  ".join(cells_shown).rstrip())

"""Shows the failed rollouts: each in full beside its task, and all of them grouped by message."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palestra.analysis.advice import Advice
from palestra.analysis.frame import RunFrame
from palestra.analysis.report.markup import Markup, amount, tag, visible, visible_line
from palestra.analysis.report.rows import failed_rows
from palestra.analysis.report.tasks import task_label
from palestra.analysis.report.transcript import ENTRY_CHARACTERS, transcript
from palestra.causes import FailureMeanings
from palestra.schema import (
    FAILURE_CLASS,
    JsonDict,
    JsonObject,
    Remedy,
    ReverifyCommand,
    Unscored,
    failure_kind,
    own_hint,
    recorded_command,
    the_command,
)

MOST_FAILURES = 5_000
"""The largest number of failed rollouts whose rows are read."""
MOST_GROUPS = 50
MOST_LINKS = 12
MOST_NAMED = 5
"""The largest number of rollouts that a command names. Of more, it verifies the whole run."""
MESSAGE_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class FailedRollout:
    """A failed rollout, as the page shows it. `position`: that of its task on the page."""

    position: int
    task: str
    block: JsonDict
    """The rollout in the format of the page's script."""
    remedy: Remedy
    reverify: ReverifyCommand | None
    """The command that verifies the kept answer; None without one."""
    name: str
    """Its name on a command line, such as `17:3`."""

    @property
    def failure(self) -> JsonDict:
        """Its class, layer, message and remedy."""
        failure: JsonDict = self.block["failure"]
        return failure

    @property
    def kind(self) -> tuple[str, str, str]:
        """What groups failures."""
        failure = self.failure
        return failure_kind(failure["class"], failure["cause"], failure["message"])


def read_failures(
    frame: RunFrame, by_task: Mapping[int, Sequence[int]], advice: Advice
) -> list[FailedRollout]:
    """Read the failed rollouts, in the order of the page's tasks. `by_task`: positions in
    `frame.failed`, by task position. `advice`: completes what is said about the run.
    """
    position_of = {number: at for at, numbers in by_task.items() for number in numbers}
    numbers = sorted(position_of, key=lambda number: (position_of[number], number))[:MOST_FAILURES]
    rows = dict(failed_rows(frame, sorted(numbers)))
    meanings = FailureMeanings()
    return [
        _failed(frame, number, rows[number], position_of[number], meanings, advice)
        for number in numbers
    ]


def _failed(
    frame: RunFrame,
    number: int,
    row: JsonObject,
    position: int,
    meanings: FailureMeanings,
    advice: Advice,
) -> FailedRollout:
    requests = frame.requests
    request = frame.failed.requests[number]
    hint = str(row.get("hint") or "")
    remedy, reverify = frame.failed.remedies[number], recorded_command(row)
    hops = row.get("hops")
    attempt = row.get("attempt")
    task, index = requests.tasks[requests.keys.task[request]], int(requests.keys.rollout[request])
    name = f"{task}:{index}"
    layer, cause = meanings.layer_and_cause(row)
    failure = {
        "class": visible_line(str(row.get(FAILURE_CLASS)), 80),
        "layer": visible_line(layer, 80),
        "cause": visible_line(cause, 80),
        "message": visible(str(row.get("message") or ""))[:MESSAGE_CHARACTERS],
        "hint": visible(advice(own_hint(hint)))[:MESSAGE_CHARACTERS],
        "remedy": advice(Unscored({remedy: 1}, reverify, (name,)).what_helps()),
        "attempts": attempt if isinstance(attempt, int) else 1,
        "hops": [_hop(hop) for hop in hops] if isinstance(hops, list) else [],
        "traceback": visible(str(row.get("traceback") or ""))[-ENTRY_CHARACTERS:],
    }
    block = {
        "why": "failed",
        "index": index,
        "failure": failure,
        "fields": [],
        "said": transcript(row),
    }
    return FailedRollout(position, task_label(task), block, remedy, reverify, name)


def _hop(hop: Any) -> list[str]:
    """Return the server, the status and the answer of one hop."""
    if not isinstance(hop, Mapping):
        return [visible_line(str(hop), 200), "", ""]
    return [
        visible_line(str(hop.get("server") or ""), 80),
        visible_line(str(hop.get("status") or ""), 20),
        visible(str(hop.get("body") or ""))[:MESSAGE_CHARACTERS],
    ]


def failures_table(failures: Sequence[FailedRollout], failed: int, advice: Advice) -> Markup | None:
    """Return the failed rollouts, grouped by class and message; None without any. `failed`: how
    many there are. `advice`: as of `read_failures`.
    """
    if not failures:
        return None
    groups: dict[tuple[str, str, str], list[FailedRollout]] = {}
    for failure in failures:
        groups.setdefault(failure.kind, []).append(failure)
    largest = sorted(groups.values(), key=len, reverse=True)
    items = [_group(members, advice) for members in largest[:MOST_GROUPS]]
    notes = []
    if len(groups) > MOST_GROUPS:
        notes.append(f"{amount(len(groups) - MOST_GROUPS, 'more kind')} of failure are left out.")
    if len(failures) < failed:
        notes.append(f"Grouped are the first {len(failures):,} of {failed:,} failed rollouts.")
    note = tag("p", " ".join(notes), class_="quiet") if notes else None
    return tag("div", tag("ul", *items, class_="failures"), note)


def _group(members: Sequence[FailedRollout], advice: Advice) -> Markup:
    failure = members[0].failure
    answered_names = [member.name for member in members if member.remedy is Remedy.REVERIFY]
    remedies = Unscored(
        Counter(member.remedy for member in members),
        the_command(set(filter(None, (member.reverify for member in members)))),
        answered_names if len(answered_names) <= MOST_NAMED else (),
    )
    about = filter(None, (failure["layer"], failure["cause"]))
    links = [
        tag(
            "a",
            f"{member.task}:{member.block['index']}",
            href=f"#task-{member.position}",
            data_task=member.position,
        )
        for member in members[:MOST_LINKS]
    ]
    left_out = len(members) - MOST_LINKS
    return tag(
        "li",
        tag(
            "h3",
            f"{failure['class']} ",
            tag("span", amount(len(members), "rollout"), class_="quiet"),
        ),
        tag("p", " · ".join(about), class_="quiet"),
        tag("pre", failure["message"]),
        tag("p", failure["hint"]) if failure["hint"] else None,
        tag("p", tag("b", "What helps: "), advice(remedies.what_helps())),
        tag("p", *links, f" and {left_out:,} more" if left_out > 0 else None, class_="links"),
    )

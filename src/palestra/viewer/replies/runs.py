"""The replies about the list of runs, and the head and the live state of one."""

from typing import Literal

from palestra.viewer.replies.base import Base, IntervalValue, NamedText, Reply, TaskName


class ClusterLink(Reply, frozen=True, kw_only=True):
    """A run over many jobs whose folder was found."""

    id: str
    name: str


class ViewerSession(Reply, frozen=True, kw_only=True):
    """`/api/session`: what the page needs to begin."""

    version: str
    query: str
    """The query of `--filter`."""
    tokenizer: bool
    """Whether ids can be shown as text."""
    paths: list[str]
    """The arguments, as they were typed."""
    clusters: list[ClusterLink]


class RunLine(Reply, frozen=True, kw_only=True):
    """One run in the list."""

    id: str
    """The digest that names the run in URLs."""
    path: str
    name: str
    environment: str
    model: str
    state: Literal["running", "done", "stopped"]
    started_at: float | None
    """In seconds since the epoch."""
    requested: int
    scored: int
    failed: int
    mean_reward: IntervalValue
    problem: str = ""
    """Why the files cannot be read; empty when they can."""
    rate: float | None = None
    """Of a live run: rollouts that end per second."""
    left_s: float | None = None
    health: Literal["starting", "healthy", "slow", "failing", "standing still", ""] = ""
    """Of a live run: how it goes. Empty: its collection does not say."""
    health_text: str = ""
    """Why, with numbers."""
    health_advice: str = ""
    """What to do about it; empty where nothing needs to be done."""
    in_flight: int | None = None
    age_s: float | None = None
    """The age of the live numbers, when the collection did not answer in time."""


class RunList(Reply, frozen=True, kw_only=True):
    """`/api/runs`: live runs first, then the newest."""

    runs: list[RunLine]


class UnreadableLine(Reply, frozen=True, kw_only=True):
    """A line that is shown by its place only."""

    file: str
    line: int
    reason: str


class RunPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}`: the head of a run, at once, from the manifest."""

    run: RunLine
    title: str
    settings: list[NamedText]
    command: str
    files: list[str]
    base: Base
    clusters: list[ClusterLink]
    problems: list[UnreadableLine]
    """Lines that cannot be read, the first 100."""
    marks: list[str]
    """What is unusual about the files, one sentence each: duplicate keys, no inputs, …"""
    group_problem: str
    """Why the run is not grouped by the field of `--group-by`, with the fields that it has; else
    empty."""
    query: str = ""


class InFlight(Reply, frozen=True, kw_only=True):
    """One rollout that runs now."""

    task: TaskName
    rollout: int
    attempt: int
    agent: str
    phase: str
    awaiting: str
    awaiting_s: float
    age_s: float


class PhaseLine(Reply, frozen=True, kw_only=True):
    """The rollouts in flight that are in one phase and await one server."""

    phase: str
    awaiting: str
    count: int
    oldest_s: float


class Live(Reply, frozen=True, kw_only=True):
    """One line of the stream `/api/r/{run}/live`: a JSON object per line, each second while
    something changes, at least each 15 s.
    """

    run: RunLine
    base: Base
    phases: list[PhaseLine]
    oldest: list[InFlight]
    """The 20 oldest rollouts in flight."""
    last_failure: str
    at: float
    changed: bool
    """Whether the figures may be asked for again; at most every 10 s."""

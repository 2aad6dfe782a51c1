"""The replies of the viewer's server: what each endpoint of `palestra.viewer.endpoints` returns.

The page's TypeScript types are made from these structs (`scripts/viewer_types.py`).

- Replies are JSON with these field names. A number that is not finite is null. Texts are as stored:
  the page makes control characters visible. Texts are cut where a docstring gives a limit.
- A *row* is a number that the index gives to one line of a run's files; it names lines that have no
  key, or a key that occurs twice. A *key* is `task:rollout`, as in `17:3`.
- A reply about a part that the files do not hold has an empty list and says so in `absent`, one
  sentence for the reader.
- An error is an `ErrorReply`, with the HTTP status 400 (the query), 403, 404 (no such run, task,
  rollout), 405, 409 (the run changed: load the page again), 500 or 503 (not indexed yet).
"""

from typing import Literal

import msgspec

TaskName = int | str
"""The index of a task, as the rows have it."""
OUTLINE_ITEMS = 500
"""The largest number of items in one page of an outline."""
HEAD_CHARACTERS = 200
"""The number of characters of an item that an outline shows."""
RANGE_BYTES = 65_536
"""The largest size of one range of a text, in bytes of UTF-8."""
PAGE_ROWS = 500
"""The largest number of rows in one page of a table."""
GROUP_ROLLOUTS = 64
"""The largest number of rollouts that a task's page shows side by side."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every reply, and of its parts."""


class ErrorReply(Reply, frozen=True, kw_only=True):
    """Any error. `message`: what happened; `hint`: what to do."""

    error: str
    """The class of the error, such as `ConfigError`; `RunChanged` for 409."""
    message: str
    hint: str = ""
    layer: str = ""
    where: str = ""
    """The part that failed, such as `tokens of 17:3`."""
    position: int | None = None
    """For a query: the position of the wrong character, from 0."""
    nearest: str = ""
    """For a query: the field that was probably meant."""


class Interval(Reply, frozen=True, kw_only=True):
    """A number with its 95 % interval. `low` and `high` are null when there are too few tasks."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Count(Reply, frozen=True, kw_only=True):
    """How often a value occurs."""

    name: str
    count: int


class Base(Reply, frozen=True, kw_only=True):
    """What the numbers of a reply rest on, while an index is still read."""

    rows: int
    """The number of indexed rows."""
    indexed_bytes: int
    total_bytes: int
    complete: bool
    """Whether everything that the files hold is indexed."""


# Runs


class Session(Reply, frozen=True, kw_only=True):
    """`/api/session`: what the page needs to begin."""

    version: str
    query: str
    """The query of `--filter`."""
    tokenizer: bool
    """Whether ids can be shown as text."""
    paths: list[str]
    """The arguments, as they were typed."""
    clusters: list["ClusterLink"]


class ClusterLink(Reply, frozen=True, kw_only=True):
    """A run over many jobs whose folder was found."""

    id: str
    name: str


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
    mean_reward: Interval
    problem: str = ""
    """Why the files cannot be read; empty when they can."""
    rate: float | None = None
    """Of a live run: rollouts that end per second."""
    left_s: float | None = None
    in_flight: int | None = None
    age_s: float | None = None
    """The age of the live numbers, when the collection did not answer in time."""


class RunList(Reply, frozen=True, kw_only=True):
    """`/api/runs`: live runs first, then the newest."""

    runs: list[RunLine]


class KeyFigure(Reply, frozen=True, kw_only=True):
    """One key figure of the report, as text."""

    name: str
    value: str
    note: str = ""


class Remark(Reply, frozen=True, kw_only=True):
    """One finding of the report. `head` is emphasized."""

    head: str
    text: str


class NamedText(Reply, frozen=True, kw_only=True):
    """A name and a value, both as text."""

    name: str
    value: str


class Bar(Reply, frozen=True, kw_only=True):
    """One bar of a figure."""

    label: str
    tick: str
    """The short label for the axis."""
    count: int
    query: str
    """The query that selects what the bar counts; empty when there is none."""
    of: Literal["rollouts", "tasks"]
    """The table that `query` is for."""


class CurvePoint(Reply, frozen=True, kw_only=True):
    """The best of k rollouts, and pass^k."""

    k: int
    best: Interval
    worst: float | None
    tasks: int


class LengthBin(Reply, frozen=True, kw_only=True):
    """The rollouts with `low` to `high` output tokens."""

    low: int
    high: int
    rollouts: int
    reward: Interval
    query: str


class OutcomeLine(Reply, frozen=True, kw_only=True):
    """How many requests ended in one way."""

    name: str
    count: int
    share: float
    meaning: str
    query: str


class GroupLine(Reply, frozen=True, kw_only=True):
    """One family or agent."""

    name: str
    tasks: int
    requested: int
    scored: int
    mean_reward: Interval | None
    pass_at_1: float | None
    best_k: int
    best: float | None
    """pass@best_k."""
    never: float | None
    sometimes: float | None
    always: float | None
    output_tokens: float | None
    query: str


class ComponentLine(Reply, frozen=True, kw_only=True):
    """One component of the reward."""

    name: str
    rollouts: int
    mean: Interval
    least: float
    most: float


class Figures(Reply, frozen=True, kw_only=True):
    """The numbers of the report. Lists are empty when nothing was scored."""

    binary: bool
    """Whether every reward is 0 or 1."""
    key_figures: list[KeyFigure]
    findings: list[Remark]
    notices: list[str]
    solved: list[Count]
    """The tasks solved never, sometimes, always."""
    pass_rates: list[Bar]
    curve: list[CurvePoint]
    rewards: list[Bar]
    lengths: list[LengthBin]
    outcomes: list[OutcomeLine]
    groups: list[GroupLine]
    grouped_by: str
    components: list[ComponentLine]


class RunPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}`: the head of a run, at once, from the manifest."""

    run: RunLine
    title: str
    settings: list[NamedText]
    command: str
    files: list[str]
    base: Base
    clusters: list[ClusterLink]
    problems: list["BadLine"]
    """Lines that cannot be read, the first 100."""
    marks: list[str]
    """What is unusual about the files, one sentence each: duplicate keys, no inputs, …"""
    query: str = ""


class RunFigures(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/figures`: the numbers of the report, for a run that may still grow."""

    figures: Figures | None
    absent: str
    """Why there are no figures; empty when there are."""
    base: Base
    computed_at: float


class BadLine(Reply, frozen=True, kw_only=True):
    """A line that is shown by its place only."""

    file: str
    line: int
    offset: int
    reason: str


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


# Tables


class Column(Reply, frozen=True, kw_only=True):
    """One column of a table."""

    name: str
    """The name in queries."""
    kind: Literal["number", "text", "boolean"]
    label: str
    shown: bool
    """Whether the table shows it unless the reader chooses."""
    sortable: bool = True


class Columns(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/columns`: the columns that each table can show."""

    rollouts: list[Column]
    tasks: list[Column]


Cell = float | int | bool | str | None
"""The value of a cell; null when the row lacks the field."""


class TableRow(Reply, frozen=True, kw_only=True):
    """One row of a table of rollouts. `key` and its parts are null for a line without indices."""

    row: int
    task: TaskName | None
    rollout: int | None
    cells: list[Cell]
    marks: list[str]
    """What is unusual about this row, such as `duplicate key`."""


class RolloutTable(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/rollouts`: a page of the rollouts that match."""

    columns: list[Column]
    rows: list[TableRow]
    offset: int
    matches: int
    total: int
    base: Base
    streaming: bool
    """Whether the query has `text:`: the matches then come from `/api/r/{run}/search`, and this
    page has the candidates."""


class TaskRow(Reply, frozen=True, kw_only=True):
    """One row of the table of tasks. `rewards`: of its rollouts, the highest first, at most 64."""

    task: TaskName
    cells: list[Cell]
    prompt: str
    """The first 200 characters of the prompt."""
    rewards: list[float]


class TaskTable(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/tasks`: a page of the tasks that match."""

    columns: list[Column]
    rows: list[TaskRow]
    offset: int
    matches: int
    total: int
    base: Base


class FacetValue(Reply, frozen=True, kw_only=True):
    """One value of a facet; `query` is the term that selects it."""

    name: str
    count: int
    query: str


class Facet(Reply, frozen=True, kw_only=True):
    """One facet: its most frequent values, at most 50, and how many others there are."""

    field: str
    values: list[FacetValue]
    others: int


class Facets(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/facets`: outcome, family, agent, class, layer, solved; empty ones are left out."""

    facets: list[Facet]
    base: Base


class Histogram(Reply, frozen=True, kw_only=True):
    """The rows by the value of one number. `edges` has one more entry than `counts`."""

    field: str
    edges: list[float]
    counts: list[int]
    """Of the rows that match."""
    all_counts: list[int]
    """Of all rows, in the same bins."""
    missing: int


class Histograms(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/histograms`: one histogram per requested number."""

    histograms: list[Histogram]
    base: Base


class SearchHit(Reply, frozen=True, kw_only=True):
    """One row whose transcript holds the text."""

    row: int
    task: TaskName | None
    rollout: int | None
    before: str
    match: str
    after: str


class SearchProgress(Reply, frozen=True, kw_only=True):
    """One line of the stream `/api/r/{run}/search`: hits since the last line, and how far it is."""

    hits: list[SearchHit]
    searched: int
    candidates: int
    done: bool
    limit_reached: bool


# Tasks


class AnswerCount(Reply, frozen=True, kw_only=True):
    """How many rollouts of a task gave one answer, and their mean reward."""

    answer: str
    count: int
    mean_reward: float | None
    rollouts: list[int]


class GroupMember(Reply, frozen=True, kw_only=True):
    """One rollout in the page of its task."""

    row: int
    rollout: int | None
    outcome: str
    reward: float | None
    components: dict[str, float]
    tokens_in: int | None
    tokens_out: int | None
    turns: int | None
    answer: str
    """The last 200 characters of the answer."""
    marks: list[str]


class FirstDifference(Reply, frozen=True, kw_only=True):
    """Where the rollouts of a group first differ: in item `item` of the output, and how."""

    item: int
    variants: list[Count]
    """The kinds and names that follow, such as `call search`, with the number of rollouts."""


class TaskGroup(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/t/{task}`: the rollouts of a task, the highest reward first, at most 64."""

    task: TaskName
    prompt: str
    """The first 4,000 characters."""
    members: list[GroupMember]
    rollouts: int
    solved: int
    scored: int
    mean: float | None
    std: float | None
    pass_rate: float | None
    learnability: float | None
    answers: list[AnswerCount]
    difference: FirstDifference | None
    previous: TaskName | None
    next: TaskName | None
    base: Base


# One rollout


class RolloutPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/t/{task}/{rollout}`: the head of a rollout."""

    row: int | None
    """The row of the result; null when the rollout has only inputs or failures."""
    task: TaskName | None
    rollout: int | None
    outcome: str
    reward: float | None
    agent: str
    model: str
    prompt_items: int
    output_items: int
    source: Literal["scored", "failed", "inputs"]
    """Where the conversation comes from: a failed attempt may have kept an answer."""
    truncated: bool
    bytes: int
    file: str
    line: int | None
    attempts: int
    """The number of failed attempts."""
    has_tokens: bool
    marks: list[str]
    previous: list[Cell] | None
    """Task and rollout of the row before it in the table; null at the beginning."""
    next: list[Cell] | None


class OutlineItem(Reply, frozen=True, kw_only=True):
    """One item of a conversation."""

    at: int
    """The position in the outline, from 0: first the prompt's items, then the output's."""
    part: Literal["prompt", "output"]
    kind: str
    """A role, or `reasoning`, `call`, `result` or `other`."""
    name: str
    """The called tool, or the type of an unknown item."""
    call_id: str
    pair: int | None
    """The position of the output of this call, or of the call of this output."""
    unpaired: bool
    """Whether this is a call without output, or an output without call."""
    size: int
    """The size of the text in bytes of UTF-8."""
    head: str
    """The first 200 characters of the text."""
    images: int
    turn: int | None
    """The number of the model turn that the item belongs to, from 0; null for others."""
    json: bool
    """Whether the text is JSON of an item of unknown form."""
    found: list["Mark"]
    """Where text of the reward panel's fields stands in this item."""


class Mark(Reply, frozen=True, kw_only=True):
    """A piece of an item's text, in UTF-16 code units from its beginning, as the page counts."""

    start: int
    end: int
    kind: Literal["found here", "earned by"]
    field: str


class Outline(Reply, frozen=True, kw_only=True):
    """`…/outline`: 500 items from `start`."""

    items: list[OutlineItem]
    start: int
    total: int


class ItemText(Reply, frozen=True, kw_only=True):
    """`…/item`: a range of an item's text. `start`, `end` and `size` count bytes as the file has
    them, with its escapes: `end` is the `start` of the next range, and `size` that of none.
    """

    at: int
    start: int
    end: int
    size: int
    text: str
    images: list["ImagePart"]
    """The images of the item; only with `start` 0."""


class ImagePart(Reply, frozen=True, kw_only=True):
    """An image: `type` is its media type when it can be shown; else `text` says what is there."""

    part: int
    type: Literal["image/png", "image/jpeg", "image/gif", "image/webp", ""]
    bytes: int
    text: str


class TranscriptHit(Reply, frozen=True, kw_only=True):
    """A place in the conversation, in UTF-16 code units from the beginning of the item's text."""

    at: int
    start: int
    end: int
    excerpt: str


class TranscriptHits(Reply, frozen=True, kw_only=True):
    """`…/find`: at most 1,000 places that hold the text, without case."""

    hits: list[TranscriptHit]
    more: bool


class JudgeEvaluation(Reply, frozen=True, kw_only=True):
    """One question to a judge, and its verdict."""

    question: str
    answer: str
    verdict: str
    fields: list[NamedText]


class ComponentValue(Reply, frozen=True, kw_only=True):
    """One component of the reward, with its evidence."""

    name: str
    value: float | None
    evidence: list["Evidence"]


class Evidence(Reply, frozen=True, kw_only=True):
    """The part of an item that earned a component, in UTF-16 code units from its beginning."""

    at: int
    start: int
    end: int
    text: str
    """The first 200 characters of it."""


class RewardPanel(Reply, frozen=True, kw_only=True):
    """`…/reward`: why the rollout has its reward."""

    reward: float | None
    components: list[ComponentValue]
    fields: list[NamedText]
    """What the verifier and the row say: expected answer, extracted answer, …"""
    evaluations: list[JudgeEvaluation]
    notes: list[str]
    """Evidence that points nowhere, and the like."""
    absent: str


class Attempt(Reply, frozen=True, kw_only=True):
    """One failed attempt."""

    number: int
    failure_class: str
    layer: str
    cause: str
    message: str
    hint: str
    hops: list[str]
    body: str
    """The innermost body, at most 64 KB."""
    traceback: str
    elapsed_s: float | None
    kept: bool
    """Whether the attempt kept the model's answer."""
    row: int | None


class Attempts(Reply, frozen=True, kw_only=True):
    """`…/attempts`: the failed attempts, in order."""

    attempts: list[Attempt]
    likely_cause: str
    next_action: str


class TimeSpan(Reply, frozen=True, kw_only=True):
    """A span of a rollout, in seconds after its first event."""

    name: str
    start_s: float
    end_s: float
    detail: str


class Times(Reply, frozen=True, kw_only=True):
    """`…/times`: from the events and the failures. `absent` is set when the files hold no times."""

    spans: list[TimeSpan]
    absent: str
    source: str
    """The file that the times come from."""


class TokenTurn(Reply, frozen=True, kw_only=True):
    """One turn of the model with token ids."""

    turn: int
    at: int
    """The item that carries the ids."""
    prompt_ids: int
    generation_ids: int
    mean_log_prob: float | None
    continuity: str
    """`token_continuity`, empty when the row has none."""
    reason: str
    findings: list[str]
    """What is wrong with the ids, as training would say."""
    weight_version: str


class TokenTurns(Reply, frozen=True, kw_only=True):
    """`…/tokens`: the turns that have token ids."""

    turns: list[TokenTurn]
    findings: list[str]
    """What is wrong with the trajectory as a whole (`on_policy`)."""
    absent: str
    text: bool
    """Whether ranges have text (`--tokenizer`)."""


class TokenRange(Reply, frozen=True, kw_only=True):
    """`…/tokens/{turn}`: at most 2,000 tokens of a turn, prompt first, then generation."""

    turn: int
    start: int
    total: int
    prompt_ids: int
    ids: list[int | None]
    log_probs: list[float | None]
    mask: list[int]
    """1 for a token that is trained on."""
    texts: list[str]
    """Empty without `--tokenizer`."""


class RawRange(Reply, frozen=True, kw_only=True):
    """`…/raw`: a range of the row's bytes; bytes that are no UTF-8 are shown as hexadecimal escapes."""

    text: str
    start: int
    end: int
    size: int


class TreeEntry(Reply, frozen=True, kw_only=True):
    """One member of a JSON value. `path` opens it."""

    key: str
    path: str
    """A JSON pointer."""
    kind: Literal["object", "array", "text", "number", "boolean", "null"]
    size: int
    """Members of an object or array; characters of a text."""
    text: str
    """The first 200 characters of a value that is not an object or array."""


class Tree(Reply, frozen=True, kw_only=True):
    """`…/tree`: the members of the value at `path`, 500 from `start`."""

    path: str
    entries: list[TreeEntry]
    start: int
    total: int


class Commands(Reply, frozen=True, kw_only=True):
    """`…/commands`: to copy; printable ASCII only."""

    commands: list[NamedText]


# Differences


class DiffPiece(Reply, frozen=True, kw_only=True):
    """A piece of text: `-` is in A only, `+` in B only, `=` in both."""

    op: Literal["-", "+", "="]
    text: str


class DiffItem(Reply, frozen=True, kw_only=True):
    """Two aligned items; null where one side has none. `same`: their texts are equal."""

    a: OutlineItem | None
    b: OutlineItem | None
    same: bool
    pieces: list[DiffPiece]
    """Empty when the texts are equal or one side is null."""
    by_lines: bool
    """Whether the pieces are lines: words took too long."""


class Diff(Reply, frozen=True, kw_only=True):
    """`/api/diff`: two rollouts, item by item."""

    a: RolloutPage
    b: RolloutPage
    items: list[DiffItem]
    start: int
    total: int
    first_token: "TokenDifference | None"
    """The first token id that differs; null when there are no ids or none differs."""


class TokenDifference(Reply, frozen=True, kw_only=True):
    """Where token ids first differ."""

    turn: int
    position: int
    a: int | None
    b: int | None


# Failures


class FailedRow(Reply, frozen=True, kw_only=True):
    """A rollout whose attempt failed. `kept`: its answer can be opened."""

    task: TaskName | None
    rollout: int | None
    attempt: int
    row: int
    kept: bool


class FailureNode(Reply, frozen=True, kw_only=True):
    """A node of the tree: class, then layer, then cause, then message."""

    level: Literal["class", "layer", "cause", "message"]
    name: str
    attempts: int
    rollouts: int
    without_score: int
    likely_cause: str
    next_action: str
    query: str
    rows: list[FailedRow]
    """Of a message: the first 50."""
    nodes: list["FailureNode"]


class FailureTree(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/failures`: the failed attempts as a tree, and the diagnosis."""

    nodes: list[FailureNode]
    attempts: int
    absent: str
    findings: list["FindingLine"]
    """What `palestra diagnose` says."""
    consequences: list[str]


class FindingLine(Reply, frozen=True, kw_only=True):
    """One finding of the doctor."""

    layer: str
    cause: str
    severity: Literal["error", "warning", "note"]
    symptom: str
    likely_cause: str
    next_action: str
    evidence: list[NamedText]
    """Where, and the quoted text."""
    task: TaskName | None
    rollout: int | None


# Comparison


class MetricLine(Reply, frozen=True, kw_only=True):
    """The comparison of one metric: `difference` is B minus A."""

    name: str
    tasks: int
    a: float
    b: float
    difference: Interval
    p_value: float
    p_adjusted: float
    minimum_detectable: float | None


class SideCounts(Reply, frozen=True, kw_only=True):
    """How the requests of one side ended."""

    run: RunLine
    tasks: int
    requested: int
    scored: int
    failures: list[Count]
    unaccounted: int


class ComparePage(Reply, frozen=True, kw_only=True):
    """`/api/c/{a}/{b}`: what `palestra compare` says."""

    a: SideCounts
    b: SideCounts
    tasks: int
    better: int
    worse: int
    equal: int
    unscored: int
    metrics: list[MetricLine]
    settings: list[str]
    notices: list[str]
    passed: bool
    verdict: str
    command: str


class ComparedTask(Reply, frozen=True, kw_only=True):
    """A task in both runs, with the rewards of its rollouts, highest first, at most 64."""

    task: TaskName
    prompt: str
    a: float | None
    b: float | None
    delta: float | None
    a_rewards: list[float]
    b_rewards: list[float]
    a_rollouts: list[int]
    """The rollouts in the order of `a_rewards`."""
    b_rollouts: list[int]


class CompareTasks(Reply, frozen=True, kw_only=True):
    """`/api/c/{a}/{b}/tasks`: the paired tasks, the largest regressions first unless sorted."""

    tasks: list[ComparedTask]
    offset: int
    matches: int
    total: int


# Selection


class SelectedTask(Reply, frozen=True, kw_only=True):
    """One task, and whether it is kept."""

    task: TaskName
    verdict: str
    scored: int
    requested: int
    pass_rate: float | None
    low: float | None
    high: float | None
    learnability: float | None
    output_tokens: float | None
    more_rollouts: int | None


class SelectPage(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/select`: what `palestra select` chooses."""

    verdicts: list[Count]
    rates: list[Bar]
    """The tasks by pass rate, for the slider."""
    tasks: list[SelectedTask]
    """A page of 500."""
    offset: int
    total: int
    more_rollouts: int
    """The rollouts that would decide the borderline tasks."""
    notices: list[str]
    command: str


# Cluster


class UnitLine(Reply, frozen=True, kw_only=True):
    """One shard (a seed and a chunk), or a job without shards."""

    name: str
    seed: str
    chunk: str
    standing: str
    reason: str
    job: str
    job_id: str
    restarts: int
    expected: int | None
    scored: int | None
    failed: int | None
    left: int | None
    log: list[str]
    """The last lines of its log."""
    run: str
    """The id of the shard's run; empty when it has no file yet."""


class ClusterPage(Reply, frozen=True, kw_only=True):
    """`/api/k/{cluster}`: what `palestra cluster status` says."""

    id: str
    name: str
    output_dir: str
    counts: list[Count]
    rollouts: list[Count]
    units: list[UnitLine]
    problem: str
    """Why the executor does not answer; the other numbers are then of the files."""
    asked_at: float


# About


class FileLine(Reply, frozen=True, kw_only=True):
    """One file of a run."""

    role: str
    path: str
    bytes: int | None
    """Null when it does not exist."""
    modified_at: float | None
    lines: int | None
    """The number of indexed lines; null for files that are not indexed."""


class About(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/about`: the files, the manifest, the index."""

    files: list[FileLine]
    manifest: str
    """The manifest as indented JSON, without secrets."""
    settings: list[NamedText]
    versions: list[NamedText]
    index: list[NamedText]
    """Where the index is, its size and state, and why it was built anew."""
    bad_lines: list[BadLine]
    bad_lines_total: int

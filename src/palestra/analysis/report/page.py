"""Assembles the report as one HTML file that makes no network requests.

The style and the script are inline. A content security policy allows them by hash and forbids
everything else. So even text of a transcript that is not escaped cannot run, load or send anything.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from palestra.analysis.report.heading import RunFacts
from palestra.analysis.report.markup import Child, Markup, amount, data_block, tag, together
from palestra.analysis.report.tasks import TaskColumns, TaskList, task_label
from palestra.schema import JsonObject

Head = tuple[str, str, str]
"""A sortable column of the table: its data key, title and CSS class."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of the page except the transcripts, in reading order."""

    facts: RunFacts
    key_figures: Markup | None
    solved_split: Markup | None
    findings: Markup
    failures: Markup | None
    figures: Sequence[Markup]
    components: Markup | None
    outcomes: Markup
    groups: Markup | None
    grouped_by: str
    lists: Sequence[TaskList]
    tasks: TaskColumns
    task_count: int
    """The number of tasks, with a scored rollout or without."""
    table: JsonObject


def before_transcripts(contents: Contents) -> bytes:
    """Return the start of the page. The transcripts follow it, one block per task."""
    body = together(
        _header(contents),
        tag(
            "main",
            tag("section", contents.key_figures, contents.solved_split, contents.findings),
            _optional(
                "failed",
                "Failed rollouts",
                "They have no reward. Choose one to read what went wrong, and what the model "
                "answered.",
                contents.failures,
            ),
            _section("figures", "What the rewards say", None, _grid(contents.figures, "figures"))
            if contents.figures
            else None,
            _optional(
                "components",
                "Parts of the reward",
                "What the verifier returned by name. Intervals are 95 %.",
                contents.components,
            ),
            _section("outcomes", "How the requests ended", None, contents.outcomes),
            _groups(contents.groups, contents.grouped_by),
            _section(
                "look",
                "Worth a look",
                "The extremes of this run. Choose a task to read its rollouts.",
                _grid([_list(task_list, contents.tasks) for task_list in contents.lists], "lists"),
            )
            if contents.lists
            else None,
            _table(contents),
        ),
        _reader(),
        data_block("table-data", contents.table),
    )
    return f"{_head(contents.facts.title)}<body>{body}".encode()


def after_transcripts(left_out: str, tools: Sequence[Sequence[Sequence[str]]]) -> bytes:
    """Return the end of the page. `left_out`: a text on the transcripts that did not fit. `tools`:
    the sets of tools that the model was offered.
    """
    footer = tag(
        "footer",
        tag("p", left_out),
        tag(
            "p",
            "Every number here is also in the files beside it: per task in "
            "*_reward_profiling.jsonl, per agent in *_agent_metrics.json. Intervals are 95 % and "
            "count the rollouts of one task as dependent. Nothing in this file loads or sends "
            "anything.",
        ),
    )
    noscript = tag("noscript", tag("p", "The table of tasks and the transcripts need JavaScript."))
    block = data_block("tools", tools)
    return f"{footer}{noscript}{block}<script>{_resource('report.js')}</script></body></html>\n".encode()


def _head(name: str) -> str:
    style = _resource("palette.css") + _resource("report.css")
    script = _resource("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = together(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content="Palestra"),
        tag("title", name),
        Markup(f"<style>{style}</style>"),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>'


def _header(contents: Contents) -> Markup:
    toggle = tag("button", "Theme", type="button", id="theme", hidden=True)
    links = (
        ("#failed", "Failed", contents.failures),
        ("#figures", "Rewards", contents.figures),
        ("#outcomes", "Outcomes", True),
        ("#look", "Worth a look", contents.lists),
        ("#tasks", "Tasks", True),
    )
    nav = [tag("a", text, href=target) for target, text, is_there in links if is_there]
    return tag(
        "header",
        tag("div", tag("p", "Reward profile", class_="kicker"), tag("nav", *nav, toggle)),
        tag("h1", contents.facts.title, data_file=contents.facts.file),
        tag("p", contents.facts.lead, class_="lead"),
        contents.facts.markup(),
    )


def _section(name: str, title: str, lead: str | None, *children: Child) -> Markup:
    lead_paragraph = tag("p", lead, class_="section-lead") if lead else None
    return tag("section", tag("h2", title), lead_paragraph, *children, id=name)


def _optional(name: str, title: str, lead: str, content: Markup | None) -> Markup | None:
    return None if content is None else _section(name, title, lead, content)


def _grid(children: Sequence[Markup], class_: str) -> Markup:
    return tag("div", *children, class_=class_)


def _groups(table: Markup | None, grouped_by: str) -> Markup | None:
    if table is None:
        return None
    return _section(
        "groups", f"By {grouped_by}", "The bars: never, sometimes, always solved.", table
    )


def _list(task_list: TaskList, tasks: TaskColumns) -> Markup:
    items = (
        tag(
            "li",
            tag("a", task_label(tasks.names[at]), href=f"#task-{at}", data_task=at),
            tag("span", class_="strip", data_strip=at),
            tag("span", figure, class_="n"),
        )
        for at, figure in zip(task_list.positions, task_list.figures, strict=True)
    )
    return tag(
        "section",
        tag("h3", task_list.title),
        tag("p", task_list.why, class_="reading"),
        tag("ol", *items),
    )


def _table(contents: Contents) -> Markup:
    table = contents.table
    task_count = len(table["position"])
    lead = f"All {amount(task_count, 'task')}. "
    if task_count < contents.task_count:
        lead = (
            f"{amount(task_count, 'task')} of {contents.task_count:,}: the extremes, and as many of each pass "
            "rate as fit. "
        )
    lead += "A bar is a rollout, its height the reward. Numbers are means over rollouts."
    heads = tuple(_heads(contents))
    columns = (_column_head(*head) for head in heads)
    return _section(
        "tasks",
        "Tasks",
        lead,
        _filters(table["groups"], has_missing=any(table["missing"])),
        tag(
            "table",
            tag("caption", "Tasks", class_="hidden"),
            tag("thead", tag("tr", *columns)),
            tag("tbody", id="rows"),
            class_="tasks",
        ),
        tag(
            "nav",
            tag("button", "Previous", type="button", id="previous"),
            tag("p", id="shown", aria_live="polite"),
            tag("button", "Next", type="button", id="next"),
            class_="pages",
            aria_label="Pages of the table",
        ),
    )


def _heads(contents: Contents) -> list[Head]:
    table = contents.table
    heads = [
        ("position", "Task", "name"),
        ("prompt", "Prompt", "prompt"),
        ("rewards", "Rewards", "strip"),
        ("rate", "Solved", "n"),
        ("mean", "Mean reward", "n wide"),
        ("std", "± std", "n wide"),
    ]
    optional = (
        ("tokens", "Tokens out", "n wide"),
        ("time", "Time", "n wide"),
        ("missing", "No score", "n wide"),
    )
    return heads + [head for head in optional if any(table[head[0]])]


def _column_head(key: str, text: str, class_: str) -> Markup:
    if key in {"prompt", "rewards"}:
        return tag("th", text, scope="col", class_=class_, data_key=key)
    button = tag("button", text, type="button", data_sort=key)
    return tag("th", button, scope="col", class_=class_, data_key=key)


def _filters(groups: Sequence[str], *, has_missing: bool) -> Markup:
    states = [
        ("", "all tasks"),
        ("sometimes", "sometimes solved"),
        ("never", "never solved"),
        ("always", "always solved"),
        ("text", "with transcripts"),
    ]
    if has_missing:
        states.append(("missing", "with rollouts without a score"))
    inside = [
        tag(
            "label",
            "Find ",
            tag("input", type="search", id="find", placeholder="task or words of its prompt"),
        ),
        tag("label", "Show ", _select("state", states)),
        tag(
            "label",
            "Pass rate ",
            tag(
                "input",
                type="number",
                id="low",
                min=0,
                max=100,
                step="any",
                aria_label="Pass rate from, percent",
            ),
            " to ",
            tag(
                "input",
                type="number",
                id="high",
                min=0,
                max=100,
                step="any",
                aria_label="Pass rate to, percent",
            ),
            " %",
        ),
    ]
    if groups:
        names = [("", "all groups"), *((str(at), name) for at, name in enumerate(groups))]
        inside.append(tag("label", "Group ", _select("group", names)))
    inside.append(tag("button", "Reset", type="button", id="reset"))
    return tag("div", *inside, class_="filters", role="search")


def _select(name: str, options: Sequence[tuple[str, str]]) -> Markup:
    return tag("select", *(tag("option", text, value=value) for value, text in options), id=name)


def _reader() -> Markup:
    """Return the empty dialog that shows the rollouts of a task; the script fills it."""
    buttons = (
        ("before", "Previous", "Previous task of the table (left arrow)"),
        ("after", "Next", "Next task of the table (right arrow)"),
        ("close", "Close", "Close (Escape)"),
    )
    bar = (
        tag("button", text, type="button", id=name, title=title) for name, text, title in buttons
    )
    return tag(
        "dialog",
        tag("div", tag("h2", id="reader-title"), tag("div", *bar, class_="buttons"), class_="bar"),
        tag("div", id="reader-body", tabindex=0),
        id="reader",
        aria_labelledby="reader-title",
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files("palestra.analysis.report").joinpath(name).read_text(encoding="utf-8")

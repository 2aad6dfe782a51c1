"""`gym list` and `gym search`: the components in the search roots."""

from collections.abc import Sequence

from palestra.authoring import SIMILAR, InstalledComponent, installed_components, similarity
from palestra.cli.console import notice, say, say_json
from palestra.cli.gym.grammar import Invocation, UsageError
from palestra.cli.tables import print_table
from palestra.config import did_you_mean, search_roots
from palestra.errors import ConfigError
from palestra.programs import LISTED
from palestra.system import shown


def list_components(invocation: Invocation, _overrides: list[str]) -> int:
    """Print a table of the components of a kind, or the details of one.

    Raises ConfigError, with the most similar name: there is no component of this name.
    """
    kind = invocation.action
    components = list(installed_components(kind, search_roots()))
    if invocation.name is not None:
        _show(_component_named(invocation.name, kind, components), as_json=invocation.json)
        return 0
    chosen = [
        component
        for component in components
        if all(component.has(name, text) for name, text in invocation.flags.items())
    ]
    _show_all(chosen, LISTED[kind], invocation)
    return 0


def search(invocation: Invocation, _overrides: list[str]) -> int:
    """Print the components whose name or description is similar to the query, the best first.

    Raises UsageError: the query is missing.
    """
    kinds, query = _query(invocation.name or "")
    if not query:
        called = f"{invocation.program} search"
        raise UsageError(f"{called} needs a query", hint=f"{called} [{'|'.join(LISTED)}] QUERY")
    scored = [
        (score, component)
        for kind in kinds
        for component in installed_components(kind, search_roots())
        if (score := _similarity(query, component)) >= SIMILAR
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1].kind, pair[1].name))
    first = query.partition(" ")[0]
    if f"{first}s" in LISTED and query != first:
        notice(
            f"hint: {first!r} is searched for; the type is {first}s: {invocation.program} search {first}s …"
        )
    if invocation.json:
        say_json([{**component.to_dict(), "score": round(score, 3)} for score, component in scored])
    else:
        matches = [component for _, component in scored]
        _show_all(matches, f"components like {query!r}", invocation)
    return 0


def _similarity(query: str, component: InstalledComponent) -> float:
    domain = str(component.fact("domain") or "")
    return similarity(query, component.name, domain, component.description)


def _query(words: str) -> tuple[Sequence[str], str]:
    """Split `[TYPE] QUERY` into the kinds to search and the query."""
    first, _, query = words.partition(" ")
    return ((first,), query) if first in LISTED and query else (tuple(LISTED), words)


def _component_named(
    name: str, kind: str, components: Sequence[InstalledComponent]
) -> InstalledComponent:
    match = next((component for component in components if component.name == name), None)
    if match is not None:
        return match
    near = did_you_mean(name, [component.name for component in components])
    searched = ", ".join(str(root) for root in search_roots())
    raise ConfigError(
        f"there is no {name!r} among the {LISTED[kind]}{near}",
        hint=f"searched in {searched}; --search-dir adds a folder",
    )


def _show(component: InstalledComponent, *, as_json: bool) -> None:
    """Print the details of one component."""
    if as_json:
        say_json(component.to_dict())
        return
    say(component.name)
    details = {
        "path": shown(component.folder),
        "configs": ", ".join(shown(path) for path in component.configs),
        "domain": component.fact("domain"),
        "description": component.description,
        **component.manifest,
    }
    for name, value in details.items():
        if value not in (None, "", "name"):
            say(f"  {name}: {value}")


def _show_all(components: Sequence[InstalledComponent], what: str, invocation: Invocation) -> None:
    if invocation.json:
        say_json([component.to_dict() for component in components])
    elif not components:
        say(f"no {what}")
        elsewhere = ""
        if invocation.group == "search":
            elsewhere = f"; {invocation.program} list TYPE lists all of a type: {', '.join(LISTED)}"
        elif what == LISTED["environments"]:
            elsewhere = (
                f"; Palestra's own are resources servers: {invocation.program} list "
                "resources-servers"
            )
        searched = ", ".join(str(root) for root in search_roots())
        notice(f"hint: searched in {searched}{elsewhere}")
    else:
        print_table(
            ("name", "type", "domain", "description", "folder"),
            [
                (c.name, c.kind, c.fact("domain") or "", c.description, shown(c.folder))
                for c in components
            ],
            spare="folder,type",
        )

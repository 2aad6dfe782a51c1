"""Lists what can be run: environments, benchmarks, agents and models. `palestra list` prints it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from palestra.api.arguments import checks_arguments
from palestra.api.models import LOCAL
from palestra.authoring import (
    SIMILAR,
    FileEnvironment,
    InstalledComponent,
    component_traits,
    environments_in_file,
    file_environments,
    installed_components,
    needs_of,
    similarity,
    turns_of,
)
from palestra.config import (
    PACKAGE_ROOT,
    NamedFile,
    did_you_mean,
    did_you_mean_path,
    locating,
    project_root,
    read_settings,
    search_roots,
)
from palestra.errors import ConfigError
from palestra.responses_api_models.providers import (
    MODEL_PROVIDERS,
    PROVIDERS,
    Provider,
    providers_with,
)
from palestra.schema import JsonDict

ComponentKindName = Literal["environments", "agents", "models", "benchmarks"]
KINDS: Final[tuple[ComponentKindName, ...]] = ("environments", "agents", "models", "benchmarks")
"""What can be listed, in the order of a list."""
_ENVIRONMENT_TREES: Final = ("resources-servers", "environments")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_ANY_MODEL: Final = ":NAME"
_BEHIND_FILES: Final = "environment_file"
"""The server behind the environments in one file. It has no tasks of its own."""


@dataclass(frozen=True, slots=True)
class ComponentSummary:
    """One line of `palestra list`: a component, and what a user must know to choose it."""

    name: str
    """What `palestra show`, and for environments `palestra eval`, accept."""
    kind: ComponentKindName
    description: str
    domain: str
    turns: str
    """How a rollout goes on: `single`, `tools` or `multi`. Empty for agents and models."""
    rows: int | None
    """The number of rows that come with it; None when only running its code tells."""
    makes_rows: bool
    """Whether it makes rows on demand, in any number."""
    needs: tuple[str, ...]
    """What must be there to run it: `sandbox`, `judge`, `network`, `extra NAME`, or `key NAME`."""
    licences: tuple[str, ...]
    is_own: bool
    """Whether it belongs to the project, and not to Palestra."""
    path: Path
    """Its folder or file."""

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        fields: dict[str, Any] = asdict(self)
        lists = {"needs": list(self.needs), "licences": list(self.licences)}
        return {**fields, **lists, "path": str(self.path)}


@dataclass(frozen=True, slots=True)
class NamedProvider:
    """A provider of models, as `--model` knows it."""

    name: str
    row: Provider
    """What is known of it."""


@checks_arguments
def list_environments(words: Iterable[str] = ()) -> tuple[ComponentSummary, ...]:
    """Return the environments: those of the project first, then Palestra's own, each by name.

    `words`: only environments whose name, domain or description is similar to every word.
    """
    return list_components(words, ("environments",))


@checks_arguments
def list_agents(words: Iterable[str] = ()) -> tuple[ComponentSummary, ...]:
    """Return the agents, in the order of `list_environments`."""
    return list_components(words, ("agents",))


@checks_arguments
def list_models(words: Iterable[str] = ()) -> tuple[ComponentSummary, ...]:
    """Return the model servers and the providers of models, in the order of `list_environments`."""
    return list_components(words, ("models",))


def list_components(
    words: Iterable[str] = (), kinds: Iterable[ComponentKindName] = KINDS
) -> tuple[ComponentSummary, ...]:
    """Return the components of some kinds. The project's own come first.

    `words`: only components whose name, domain or description is similar to every word.
    """
    sought = list(words)
    roots = search_roots()
    summaries = [
        summary
        for kind in kinds
        for summary in _of_kind(kind, roots)
        if all(_is_like(word, summary) for word in sought)
    ]
    order = {kind: number for number, kind in enumerate(KINDS)}
    summaries.sort(key=lambda one: (order[one.kind], not one.is_own))  # stable: by name within
    return tuple(summaries)


def find_component_named(name: str) -> InstalledComponent | FileEnvironment | NamedProvider:
    """Return the component with this name: an environment first, then a benchmark, an agent, a
    model server. A path of a Python file or of a folder names what is there, and nothing else.

    A provider of models is found by its name too, with or without a model's name. Raises
    ConfigError, with the most similar name: there is none.
    """
    component = _file_at(name) or _folder_at(name) or _with_name(name)
    if component is not None:
        return component
    names = [summary.name.removesuffix(_ANY_MODEL) for summary in list_components()]
    raise ConfigError(
        f"there is no run, environment, agent, model or benchmark {name!r}"
        + (did_you_mean(name, names) or (did_you_mean_path(Path(name)) if Path(name).name else "")),
        hint="palestra list and palestra runs show what there is",
    )


def _file_at(name: str) -> FileEnvironment | None:
    """Return the environment in the Python file that `name` is the path of."""
    named_file = NamedFile.parse(name)
    if named_file is None:
        return None
    environments = environments_in_file(Path(named_file.path))
    return next(
        (
            environment
            for environment in environments
            if named_file.class_name in {"", environment.name}
        ),
        None,
    )


def _folder_at(name: str) -> InstalledComponent | None:
    """Return the component in the folder that `name` is the path of."""
    path = Path(name).resolve()
    root = project_root(path) if "/" in name and path.is_dir() else None
    components = () if root is None else _installed((root,))
    return next((component for component in components if component.folder.resolve() == path), None)


def _with_name(name: str) -> InstalledComponent | FileEnvironment | NamedProvider | None:
    if "/" in name and Path(name).is_dir():
        return None
    for environment in file_environments(Path.cwd()):
        if name == environment.path.stem:
            return environment
    names = {name, name.strip("/").rpartition("/")[2]}
    for component in _installed(search_roots()):
        if component.name in names:
            return component
    provider_name = name.partition(":")[0]
    return next((provider for provider in _providers() if provider.name == provider_name), None)


def _installed(roots: Sequence[Path]) -> Iterator[InstalledComponent]:
    for kind in (*_ENVIRONMENT_TREES, "benchmarks", "agents", "models"):
        yield from installed_components(kind, roots)


def summary_of(component: InstalledComponent | FileEnvironment | NamedProvider) -> ComponentSummary:
    """Return the line of a component in a list."""
    if isinstance(component, NamedProvider):
        return _of_provider(component)
    if isinstance(component, FileEnvironment):
        return _of_file(component)
    kinds: Mapping[str, ComponentKindName] = {kind: kind for kind in KINDS}
    kind = kinds.get(component.kind, "environments")
    return _of_folder(component, kind, search_roots())


def _is_like(word: str, summary: ComponentSummary) -> bool:
    texts = (summary.domain, summary.description)
    return similarity(word, summary.name, *texts) >= SIMILAR


def _of_kind(kind: ComponentKindName, roots: Sequence[Path]) -> Iterator[ComponentSummary]:
    if kind == "environments":
        yield from map(_of_file, file_environments(Path.cwd()))
        for tree in _ENVIRONMENT_TREES:
            for component in installed_components(tree, roots):
                if component.configs or component.name != _BEHIND_FILES:
                    yield _of_folder(component, kind, roots)
        return
    if kind == "models":
        yield from map(_of_provider, _providers())
    for component in installed_components(kind, roots):
        yield _of_folder(component, kind, roots)


def _of_folder(
    component: InstalledComponent, kind: ComponentKindName, roots: Sequence[Path]
) -> ComponentSummary:
    has_tasks = kind in {"environments", "benchmarks"}
    traits = component_traits(component, roots)
    return ComponentSummary(
        name=component.name,
        kind=kind,
        description=component.description or _first_sentence(component.folder / "README.md"),
        domain=str(component.fact("domain") or ""),
        turns=traits.turns if has_tasks else "",
        rows=traits.rows if has_tasks else None,
        makes_rows=has_tasks and traits.makes_rows,
        needs=traits.needs if has_tasks else tuple(n for n in traits.needs if " " in n),
        licences=traits.licences if has_tasks else (),
        is_own=not component.folder.is_relative_to(PACKAGE_ROOT),
        path=component.folder,
    )


def _of_file(environment: FileEnvironment) -> ComponentSummary:
    return ComponentSummary(
        name=environment.path.name,
        kind="environments",
        description=environment.description,
        domain="",
        turns=turns_of(environment.traits),
        rows=environment.rows,
        makes_rows=False,
        needs=needs_of(environment.traits),
        licences=(),
        is_own=True,
        path=environment.path,
    )


def _providers() -> Iterator[NamedProvider]:
    """Yield the providers that a model's name may begin with, with those of the project."""
    rows = read_settings((MODEL_PROVIDERS,)).get(MODEL_PROVIDERS)
    with locating():
        providers = providers_with(rows)
    for name, provider in providers.items():
        yield NamedProvider(name, provider)


def _of_provider(provider: NamedProvider) -> ComponentSummary:
    name, row = provider.name, provider.row
    is_local = name == LOCAL
    return ComponentSummary(
        name=name if is_local else f"{name}{_ANY_MODEL}",
        kind="models",
        description="the small model that comes with Palestra"
        if is_local
        else f"any model at {row.base_url or 'your endpoint'}",
        domain="",
        turns="",
        rows=None,
        makes_rows=False,
        needs=(f"key {row.key_variable}",) if row.key_needed else (),
        licences=(),
        is_own=PROVIDERS.get(name) != row,
        path=PACKAGE_ROOT / "responses_api_models",
    )


def _first_sentence(readme: Path) -> str:
    """Return the first sentence of a README, without its title; empty without a README."""
    if not readme.is_file():
        return ""
    paragraphs = readme.read_text("utf-8", errors="replace").split("\n\n")
    texts = [" ".join(text.split()) for text in paragraphs if not text.startswith("#")]
    sentence = texts[0].partition(". ")[0].rstrip(".:") if texts else ""
    return _LINK.sub(r"\1", sentence)

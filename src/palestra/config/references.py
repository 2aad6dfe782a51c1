"""References between servers: `{type: <server type>, name: <instance>}` in settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palestra.config.problems import nearest, raise_problems
from palestra.config.resolved import InstanceConfig, ServerRef, ServerType
from palestra.config.tree import COPY, MOVE, Steps, children, dotted
from palestra.errors import KnownCause, Problem

_TYPES = frozenset(server_type.value for server_type in ServerType)
_SURELY_MEANT = 0.8
_ADD_A_MODEL = (
    "add a model server, such as "
    "`+config_paths=[responses_api_models/openai_model/configs/openai_model.yaml] "
    "++policy_model_name=NAME`"
)


def find_references(settings: Any) -> tuple[ServerRef, ...]:
    """Return every server reference in the settings, at any depth, each once, in order."""
    references = (_as_reference(node) for _, node in _candidates(settings))
    return tuple(dict.fromkeys(ref for ref in references if ref is not None))


def check_references(instances: Mapping[str, InstanceConfig], takers: Mapping[str, str]) -> None:
    """Raise one error that lists every reference to a missing instance or to one of another type.

    `takers` has the instances that `_inherit_from` took away, each with the path that inherits.
    """
    problems = [
        instance.located(
            Problem(
                f"{instance.name}: {dotted(steps) or 'settings'} {problem}",
                key=dotted((instance.name, instance.type, instance.implementation, *steps)),
                cause=KnownCause.MISSING_REFERENCE,
            ),
            *steps,
            "name" if node["type"] in _TYPES else "type",
        )
        for instance in instances.values()
        for steps, node in _candidates(instance.settings)
        if (problem := _problem(node, instances, takers))
    ]
    raise_problems(problems, hint=_remedy(problems))


def _remedy(problems: Sequence[Problem]) -> str:
    """Return what to do when the configuration has no model server; empty when that is not known."""
    return (
        _ADD_A_MODEL if any(_no_instance(ServerType.MODEL) in p.message for p in problems) else ""
    )


def _candidates(node: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Mapping[Any, Any]]]:
    """Yield every mapping whose keys are exactly `type` and `name`, with its path."""
    if isinstance(node, Mapping) and set(node) == {"type", "name"}:
        yield steps, node
    for step, item in children(node):
        yield from _candidates(item, (*steps, step))


def _as_reference(node: Mapping[Any, Any]) -> ServerRef | None:
    if node["type"] not in _TYPES or not isinstance(node["name"], str):
        return None
    return ServerRef(node["type"], node["name"])


def _problem(
    node: Mapping[Any, Any], instances: Mapping[str, InstanceConfig], takers: Mapping[str, str]
) -> str | None:
    kind, name = node["type"], node["name"]
    if not isinstance(kind, str):
        return None
    if kind not in _TYPES:
        near = nearest(kind, _TYPES, cutoff=_SURELY_MEANT)
        return f"refers to type {kind!r}; did you mean {near!r}?" if near else None
    instance = instances.get(name) if isinstance(name, str) else None
    if instance is not None and instance.type == kind:
        return None
    return f"refers to {kind} {name!r}, {_why_not(kind, name, instances, takers)}"


def _no_instance(kind: str) -> str:
    return f"and the configuration has no {kind}"


def _why_not(
    kind: str, name: Any, instances: Mapping[str, InstanceConfig], takers: Mapping[str, str]
) -> str:
    if isinstance(name, str) and name in instances:
        return f"but {name!r} is one of the {instances[name].type}"
    if isinstance(name, str) and name in takers:
        return f"which {takers[name]}.{MOVE} has taken away; {COPY} there leaves it"
    names_of_kind = [instance.name for instance in instances.values() if instance.type == kind]
    if not names_of_kind:
        return _no_instance(kind)
    near = nearest(str(name), names_of_kind)
    suggestion = f"did you mean {near!r}? " if near else ""
    return f"which does not exist; {suggestion}{kind}: {', '.join(names_of_kind)}"

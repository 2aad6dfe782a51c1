"""The subject areas of resources servers, which NeMo Gym requires of each."""

from collections.abc import Iterator
from typing import Final

from palestra.config.environment_files import ENVIRONMENT_FILE
from palestra.config.keys import Domain
from palestra.config.problems import did_you_mean, misspelt_as
from palestra.config.resolved import InstanceConfig, ResolvedConfig, ServerType
from palestra.errors import KnownCause, Problem

_DOMAINS: Final = tuple(domain.value for domain in Domain)


def domain_problems(config: ResolvedConfig) -> tuple[Problem, ...]:
    """Return the problems of resources servers without a domain, or with another than the known ones.

    Empty with `error_on_almost_servers: false`.
    """
    if config.tree.get("error_on_almost_servers") is False:
        return ()
    return tuple(
        problem
        for instance in config.instances.values()
        if instance.type == ServerType.RESOURCES and instance.implementation != ENVIRONMENT_FILE
        for problem in _problems_of(instance)
    )


def _problems_of(instance: InstanceConfig) -> Iterator[Problem]:
    if instance.domain in _DOMAINS:
        return
    key = f"{instance.name}.{instance.type}.{instance.implementation}.domain"
    hint = f"domains: {', '.join(_DOMAINS)}"
    if instance.domain is None:
        message = f"{key} is required{misspelt_as('domain', instance.settings)}"
        problem = Problem(message, hint=hint, key=key, cause=KnownCause.MISSING_VALUE)
        yield instance.located_in_block(problem, "domain")
        return
    near = did_you_mean(instance.domain, _DOMAINS)
    message = f"{key}: {instance.domain!r} is not a domain{near}"
    problem = Problem(message, hint=hint, key=key, cause=KnownCause.BAD_VALUE)
    yield instance.located(problem, "domain")

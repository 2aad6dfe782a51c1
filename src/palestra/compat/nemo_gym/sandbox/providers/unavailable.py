"""Providers whose names are known, so that settings can be checked, but that Palestra cannot run."""

from typing import Any, ClassVar, NoReturn

from palestra.compat.nemo_gym.sandbox.providers.base import ProviderUnavailable


class UnavailableProvider:
    """A provider that Palestra lacks. Creating one raises ProviderUnavailable."""

    name: ClassVar[str]
    needs: ClassVar[str]
    """What the provider works with."""

    def __new__(cls, *_arguments: Any, **_settings: Any) -> NoReturn:
        raise ProviderUnavailable(
            f"sandbox provider {cls.name!r} needs {cls.needs}, which Palestra does not support; "
            "use the provider docker, apptainer or local, or register your own class with "
            f"nemo_gym.sandbox.register_provider({cls.name!r}, YourClass, override=True)"
        )


class DaytonaProvider(UnavailableProvider):
    """Sandboxes of a Daytona service."""

    name = "daytona"
    needs = "a Daytona service and its package `daytona`"


class EcsFargateProvider(UnavailableProvider):
    """Tasks of AWS ECS on Fargate."""

    name = "ecs_fargate"
    needs = "an AWS account with ECS on Fargate and the package `boto3`"


class EnrootProvider(UnavailableProvider):
    """Containers of the program enroot."""

    name = "enroot"
    needs = "the program `enroot`"


class OpensandboxProvider(UnavailableProvider):
    """Sandboxes of an OpenSandbox service."""

    name = "opensandbox"
    needs = "an OpenSandbox service and its package `opensandbox`"


class OpenshellProvider(UnavailableProvider):
    """Sandboxes of an OpenShell gateway."""

    name = "openshell"
    needs = "an OpenShell gateway and its package `openshell`"

"""`nemo_gym.sandbox.providers.apptainer`: sandboxes are instances of the apptainer program."""

from palestra.compat.nemo_gym.sandbox.providers.apptainer import provider
from palestra.compat.nemo_gym.sandbox.providers.apptainer.provider import (
    ApptainerCreateConfig,
    ApptainerExecConfig,
    ApptainerProvider,
)

__all__ = ["ApptainerCreateConfig", "ApptainerExecConfig", "ApptainerProvider", "provider"]

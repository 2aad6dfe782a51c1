"""The settings of the commands that move datasets, as names that a configuration may hold."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from palestra.config import flag
from palestra.datasets.hub import HubDownload, HubUpload
from palestra.datasets.registry import GitlabDownload, GitlabUpload
from palestra.datasets.transfer import Patience


class NetworkSettings(BaseModel):
    """What every command about a hub or a registry takes."""

    model_config = ConfigDict(extra="ignore")

    network_deadline_s: Annotated[float, flag("--network-deadline")] = Field(
        default=120.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds of network trouble put up with.",
    )
    yes: Annotated[bool, flag("--yes", "-y")] = Field(
        default=False, description="Delete without a question."
    )

    @property
    def patience(self) -> Patience:
        """As the transfers take it."""
        timeout = min(60.0, self.network_deadline_s)
        return Patience(deadline_s=self.network_deadline_s, answer_timeout_s=timeout)


SHARING_SETTINGS: Final = frozenset(
    {
        *HubUpload.model_fields,
        *HubDownload.model_fields,
        *GitlabUpload.model_fields,
        *GitlabDownload.model_fields,
        *NetworkSettings.model_fields,
        "hf_token",
        "mlflow_tracking_uri",
        "mlflow_tracking_token",
    }
)

"""Every name that environments in the field import is there, and is what its name says."""

import importlib
import inspect
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from palestra.compat import aliases

# module, then the names that are imported from it
NAMES = {
    "nemo_gym.server_utils": (
        "ServerClient",
        "raise_for_status",
        "get_response_json",
        "SESSION_ID_KEY",
        "request",
        "get_first_server_config_dict",
        "is_nemo_gym_fastapi_entrypoint",
        "get_server_url",
    ),
    "nemo_gym.base_resources_server": (
        "BaseVerifyResponse",
        "BaseVerifyRequest",
        "BaseResourcesServerConfig",
        "SimpleResourcesServer",
        "BaseRunRequest",
        "BaseSeedSessionRequest",
        "BaseSeedSessionResponse",
        "AggregateMetricsRequest",
        "AggregateMetrics",
        "ReverifyMode",
        "NeMoGymResponse",
    ),
    "nemo_gym.openai_utils": (
        "NeMoGymResponse",
        "NeMoGymResponseCreateParamsNonStreaming",
        "NeMoGymEasyInputMessage",
        "NeMoGymResponseOutputMessage",
        "NeMoGymResponseOutputText",
        "NeMoGymResponseFunctionToolCall",
        "NeMoGymFunctionCallOutput",
        "NeMoGymResponseReasoningItem",
        "NeMoGymSummary",
        "NeMoGymChatCompletionCreateParamsNonStreaming",
        "NeMoGymResponseUsage",
        "NeMoGymChatCompletion",
        "NeMoGymResponseInputTokensDetails",
        "NeMoGymResponseOutputTokensDetails",
        "NeMoGymResponseOutputItem",
        "accumulate_response_usage",
        "NeMoGymAsyncOpenAI",
        "NeMoGymResponseOutputRefusal",
        "NeMoGymChatCompletionMessage",
        "NeMoGymChoice",
        "NeMoGymResponseOutputMessageForTraining",
    ),
    "nemo_gym.config_types": (
        "ModelServerRef",
        "ResourcesServerRef",
        "AggregateMetricsRequest",
        "AggregateMetrics",
    ),
    "nemo_gym.base_responses_api_agent": (
        "BaseResponsesAPIAgentConfig",
        "SimpleResponsesAPIAgent",
        "Body",
    ),
    "nemo_gym.reward_profile": (
        "compute_pass_majority_metrics",
        "highest_k_metrics",
        "compute_subset_metrics",
    ),
    "nemo_gym.judge": (
        "call_judge",
        "JudgeError",
    ),
    "nemo_gym.global_config": (
        "ROLLOUT_INDEX_KEY_NAME",
        "TASK_INDEX_KEY_NAME",
        "get_first_server_config_dict",
        "get_global_config_dict",
        "SKILLS_REF_KEY_NAME",
    ),
    "nemo_gym.sandbox": (
        "SandboxSpec",
        "AsyncSandbox",
        "SandboxResources",
        "resolve_provider_config",
        "resolve_provider_metadata",
    ),
    "nemo_gym": ("PARENT_DIR",),
    "nemo_gym.rollout_observability": (
        "AgentInvocation",
        "ObservationGap",
        "AgentObservationBundle",
        "ToolCallObservation",
        "ContextCompactionObservation",
        "AgentEpisode",
        "ModelCallRef",
    ),
    "nemo_gym.prompt": (
        "load_prompt_config",
        "PromptConfig",
    ),
    "nemo_gym.base_responses_api_model": (
        "Body",
        "BaseResponsesAPIModelConfig",
        "SimpleResponsesAPIModel",
    ),
    "nemo_gym.rollout_collection": (
        "NG_FAILURE_CLASS_KEY",
        "NG_NO_PERSIST_KEY",
    ),
    "nemo_gym.responses_converter": ("ResponsesConverter",),
    "nemo_gym.sandbox.config": (
        "resolve_provider_config",
        "resolve_provider_metadata",
    ),
}


@pytest.fixture(autouse=True)
def _importable() -> Iterator[None]:
    aliases.install()
    return


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names]
)
def test_the_name_resolves(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None


def test_there_are_as_many_names_as_the_field_uses() -> None:
    assert sum(len(names) for names in NAMES.values()) == 80


@pytest.mark.parametrize("module", sorted(NAMES))
def test_wire_types_servers_and_settings_are_pydantic_models(module: str) -> None:
    made = [getattr(importlib.import_module(module), name) for name in NAMES[module]]
    theirs = [
        kind for kind in made if inspect.isclass(kind) and kind.__name__.startswith("NeMoGym")
    ]

    assert all(issubclass(kind, BaseModel) for kind in theirs)


def test_an_alias_is_the_module_itself() -> None:
    theirs = importlib.import_module("nemo_gym.openai_utils")
    ours = importlib.import_module("palestra.compat.nemo_gym.openai_utils")

    assert theirs is ours
    assert ours.__spec__ is not None
    assert ours.__spec__.name == "palestra.compat.nemo_gym.openai_utils"


def test_a_module_that_nobody_has_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nemo_gym.no_such_module")


def test_our_servers_are_there_under_the_names_of_the_field() -> None:
    theirs = importlib.import_module("resources_servers.mcqa.app")

    assert theirs is importlib.import_module("palestra.resources_servers.mcqa.app")


def test_a_rare_type_of_the_openai_package_is_mirrored_by_its_name() -> None:
    module = importlib.import_module("nemo_gym.openai_utils")

    made = module.NeMoGymResponseSomethingRare(type="something_rare", value=3)

    assert module.NeMoGymResponseSomethingRare is type(made)
    assert made.model_dump() == {"type": "something_rare", "value": 3}


def test_a_misspelt_function_is_an_import_error() -> None:
    with pytest.raises(AttributeError):
        _ = importlib.import_module("nemo_gym.openai_utils").acumulate_usage

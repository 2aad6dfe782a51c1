"""Turns the name of a model, such as `groq:NAME` or `vllm:NAME@URL`, into a configuration."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from palestra.api.endpoint_waiting import Tell, Wait, wait_for
from palestra.config import (
    MASK,
    ConfigTree,
    InstanceConfig,
    ServerType,
    contradicting_override,
    did_you_mean,
    is_one_slip,
    load_config,
    locating,
    names_in_files,
    nearest,
    read_settings,
)
from palestra.errors import ConfigError, ModelError, excerpt
from palestra.responses_api_models.providers import (
    MODEL_PROVIDERS,
    PROVIDERS,
    Dialect,
    Provider,
    providers_with,
)
from palestra.schema import JsonDict
from palestra.settings import MODEL_FORM, MODEL_FORMS

POLICY: Final = "policy_model"
"""The name of the model instance that an environment's agents call."""
JUDGE: Final = "judge_model"
"""The name of the model instance that `--judge` makes."""
LOCAL: Final = "local"

_SERVERS: Final[Mapping[Dialect, str]] = {
    Dialect.RESPONSES: "openai_model",
    Dialect.CHAT: "inference_provider",
    Dialect.MESSAGES: "anthropic_model",
}
_URL: Final = ("http://", "https://")
_HOST_AND_PORT: Final = re.compile(r"[\w.-]+:(\d{4,5}(/.*)?|\d+/.*)")
"""Text that is probably a URL without its scheme, and no model's name."""
_OTHER_SEPARATOR: Final = re.compile(r"([\w-]+)/(.+)")


@dataclass(frozen=True, slots=True)
class ModelName:
    """The parts of a name, as `MODEL_FORMS` lists them."""

    provider: str
    name: str = ""
    """The provider's name of the model. Empty: the only model that the endpoint serves."""
    url: str = ""
    """The endpoint's base URL. Empty: the provider's own."""

    @classmethod
    def parse(cls, text: str) -> "ModelName":
        """Return the parts of a name. A text without `:` is a provider alone."""
        provider, _, location = text.partition(":")
        for scheme in _URL:
            name, at, address = location.rpartition(f"@{scheme}")
            if at:
                return cls(provider, name, scheme + address)
        return cls(provider, url=location) if location.startswith(_URL) else cls(provider, location)

    def __str__(self) -> str:
        location = "@".join(filter(None, (self.name, self.url)))
        return f"{self.provider}:{location}" if location else self.provider


@dataclass(frozen=True, slots=True)
class ModelContext:
    """What the name of a model is read with: the files and overrides of the command.

    `settings`: the command's options. They set how long to wait for an endpoint that is asked for
    its model's name. `option`: how the user named the model, for messages.
    """

    overrides: Sequence[str] = ()
    configs: Sequence[str] = ()
    settings: ConfigTree | None = None
    report: Tell = str
    option: str = "--model"
    role: str = "policy"
    """The beginning of the settings' names: `policy_api_key`."""

    @property
    def instance(self) -> str:
        """The name of the model instance that is configured."""
        return f"{self.role}_model"

    @property
    def takes_objects(self) -> bool:
        """Whether the model may be a `palestra.Model`: in Python, where it is no judge."""
        return self.option == "model"

    def providers(self) -> dict[str, Provider]:
        """Return Palestra's providers and those of env.yaml. Raises ConfigError: a row is wrong."""
        rows = read_settings(
            (MODEL_PROVIDERS,), overrides=self.overrides, config_paths=self.configs
        )
        with locating(overrides=self.overrides, config_paths=self.configs):
            return providers_with(rows.get(MODEL_PROVIDERS))

    def is_overridden(self, setting: str) -> bool:
        """Whether an override sets `policy_<setting>` (or that of the other role)."""
        return any(f"{self.role}_{setting}" in item for item in self.overrides)

    def is_in_files(self, setting: str) -> bool:
        """Whether a config file or env.yaml sets it."""
        return f"{self.role}_{setting}" in names_in_files(self.overrides, self.configs)


def model_config(model: str | None, context: ModelContext) -> JsonDict:
    """Return the settings that make `model` the policy.

    `model`: one of `MODEL_FORMS`, or the name of a model instance in the context's configs. None: the instance `policy_model` of these configs; else the endpoint in the overrides
    or env.yaml; else the local model, which is reported.

    Raises ConfigError: there is no such provider or instance, its key is not set, or it does not
    say which model it serves.
    """
    if model is not None:
        return _model_settings(model, context)
    if POLICY in names_in_files(context.overrides, context.configs):
        return {}
    if context.is_overridden("base_url") or context.is_in_files("base_url"):
        return _instance(context, "vllm_model", _server_fields("vllm_model", PROVIDERS["vllm"]))
    context.report(
        f"no {context.option} was passed: using the small local model, of 135 million parameters"
    )
    return _model_settings(LOCAL, context)


def judge_config(
    judge: str, context: ModelContext, *, extra: ConfigTree
) -> tuple[JsonDict, list[str]]:
    """Return the settings and the overrides that make `judge` the model of every judge in the
    configuration.

    `extra`: the settings that the configuration is made of, beside the context's files. Raises the
    errors of `model_config`, and ConfigError when nothing in the configuration asks a judge.
    """
    tree = {**extra, "config_paths": [*context.configs]}
    config = load_config(overrides=context.overrides, extra=tree, require_all=False, required=())
    references = [
        f"++{server.name}.{ServerType.RESOURCES}.{server.implementation}.{key}.name={JUDGE}"
        for server in config.instances_of(ServerType.RESOURCES)
        for key in _judges(_own_settings(config.tree, server.name))
    ]
    if not references:
        raise ConfigError(
            f"{context.option} {judge}: nothing in this environment asks a judge",
            hint=f"leave {context.option} out",
        )
    return _model_settings(judge, context), references


def judges_of(instance: InstanceConfig) -> tuple[str, ...]:
    """Return the names of the model instances that an environment asks as its judges."""
    return tuple(str(reference.get("name")) for reference in _judges(instance.settings).values())


def _judges(settings: Mapping[Any, Any]) -> dict[str, Mapping[Any, Any]]:
    """Return the settings of an environment that refer to a judge's model."""
    return {
        str(key): value
        for key, value in settings.items()
        if "judge" in str(key) and _is_model(value)
    }


def policy_endpoint(context: ModelContext) -> JsonDict:
    """Return the settings of the policy's instance, where an override or a file sets its endpoint
    and nothing in the configuration is that instance; else nothing.
    """
    is_set = context.is_overridden("base_url") or context.is_in_files("base_url")
    return model_config(None, context) if is_set else {}


def _own_settings(tree: ConfigTree, instance: str) -> Mapping[Any, Any]:
    (implementation,) = tree[instance][ServerType.RESOURCES.value].values()
    return implementation if isinstance(implementation, Mapping) else {}


def _is_model(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == ServerType.MODEL.value


def _model_settings(text: str, context: ModelContext) -> JsonDict:
    """Return the settings for the model `text`."""
    providers = context.providers()
    parsed = ModelName.parse(text)
    instances = names_in_files(context.overrides, context.configs) if ":" not in text else ()
    if text in instances:
        return {} if text == context.instance else {context.instance: {"_copy": text}}
    provider = providers.get(parsed.provider)
    if provider is None:
        raise _unknown(text, providers, context)
    if provider.model_server == "local_model":
        return _local(parsed, context)
    return _settings_of(text, parsed, provider, context)


def refuse_misspelt_provider(text: str) -> None:
    """Raise ConfigError: the model `text` of a `palestra.Model` has a provider that is most likely one of
    ours, misspelt. Other names may be of the configs of a later call.
    """
    name = ModelName.parse(text).provider
    if (
        ":" in text
        and name not in PROVIDERS
        and any(is_one_slip(name, provider) for provider in PROVIDERS)
    ):
        raise _unknown(text, PROVIDERS, ModelContext(option="name"))


def _unknown(text: str, providers: Mapping[str, Provider], context: ModelContext) -> ConfigError:
    """Return the error for a name that is neither of a provider nor of an instance."""
    option, (name, colon, _) = context.option, text.partition(":")
    if text.startswith(_URL) or _HOST_AND_PORT.fullmatch(text):
        url = text if text.startswith(_URL) else f"http://{text}"
        return ConfigError(
            f"{option} {text!r} is a URL without a provider",
            hint=f"{option} vllm:{url} for an endpoint of Chat Completions",
        )
    if colon:
        return ConfigError(
            f"{option} {text!r}: there is no provider {name!r}{did_you_mean(name, providers)}",
            hint=f"providers: {', '.join(providers)}; add yours as a row of {MODEL_PROVIDERS} in "
            "env.yaml",
        )
    slashed = _OTHER_SEPARATOR.fullmatch(text)
    if slashed and slashed[1] in providers:
        hint = f"{option} {slashed[1]}:{slashed[2]}"
    elif near := nearest(text, providers):
        form = near if near == LOCAL else f"{near}:NAME"
        hint = f"did you mean {form}? A model is {MODEL_FORMS}"
    else:
        hint = f"a model is {MODEL_FORMS}, or an instance of your configs"
    return ConfigError(
        f"{option} {text!r} is neither a provider's model nor an instance of your configs",
        hint=hint,
    )


def _local(parsed: ModelName, context: ModelContext) -> JsonDict:
    if parsed.name or parsed.url:
        raise ConfigError(
            f"{context.option} '{parsed}': the local model has no other name",
            hint=f"{context.option} local; another file of weights: {_weights_of(context)}",
        )
    return _instance(context, "local_model", {})


def _weights_of(context: ModelContext) -> str:
    if context.takes_objects:
        return "palestra.Model('local', settings={'model_path': 'FILE.gguf'})"
    return f"++{context.instance}.responses_api_models.local_model.model_path=FILE.gguf"


def _settings_of(
    text: str, parsed: ModelName, provider: Provider, context: ModelContext
) -> JsonDict:
    """Return the settings for the model of a provider: its instance, URL, key and name."""
    _refuse_wrong_form(text, parsed, provider, context)
    _refuse_contradictions(text, parsed, context)
    role = context.role
    settings: JsonDict = {f"{role}_base_url": _url_of(parsed, provider, context)}
    settings |= _key_setting(text, provider, context)
    name = parsed.name
    if not name:
        key = _key(context, settings)
        name = _only_model(settings[f"{role}_base_url"], key, parsed, provider, context)
    settings[f"{role}_model_name"] = name
    server = provider.model_server or _SERVERS[provider.dialect]
    fields = _server_fields(server, provider, parsed.provider, role)
    return {**settings, **_instance(context, server, fields)}


def _refuse_wrong_form(
    text: str, parsed: ModelName, provider: Provider, context: ModelContext
) -> None:
    option, kind = context.option, parsed.provider
    if "#" in parsed.url:
        url, _, name = parsed.url.partition("#")
        raise ConfigError(
            f"{option} {text!r}: the model's name stands before the URL",
            hint=f"{option} {kind}:{name}@{url}",
        )
    name, at, address = parsed.name.rpartition("@")
    if _HOST_AND_PORT.fullmatch(address):
        raise ConfigError(
            f"{option} {text!r} has no valid URL",
            hint=f"{option} {kind}:{name}{at}http://{address}",
        )
    if "://" in parsed.name:
        raise ConfigError(
            f"{option} {text!r} has no valid URL", hint="a URL begins with http:// or https://"
        )
    if not parsed.name and provider.key_needed:
        raise ConfigError(
            f"{option} {text!r} does not name a model", hint=f"{option} {kind}:NAME, {MODEL_FORMS}"
        )


def _refuse_contradictions(text: str, parsed: ModelName, context: ModelContext) -> None:
    """Raise ConfigError: an override gives another URL or name than `text`, which has one."""
    for setting, value in (("base_url", parsed.url), ("model_name", parsed.name)):
        name = f"{context.role}_{setting}"
        override = contradicting_override(name, value, context.overrides) if value else ""
        if override:
            raise ConfigError(
                f"{context.option} {text} and {override} contradict each other",
                hint=f"leave the override out, or write it into {context.option} {MODEL_FORMS}",
            )


def _url_of(parsed: ModelName, provider: Provider, context: ModelContext) -> str:
    variable = provider.url_variable
    if parsed.url:
        return parsed.url
    if variable and (own_url := os.environ.get(variable)):
        context.report(f"the URL for {parsed} is that of {variable}: {own_url}")
        return own_url
    url = provider.base_url
    if not url:
        setting = f"set {variable}, or " if variable else ""
        raise ConfigError(
            f"{context.option} '{parsed}': the provider {parsed.provider} has no URL",
            hint=f"{setting}{context.option} {parsed.provider}:NAME@https://HOST/…",
        )
    return url


def _key_setting(text: str, provider: Provider, context: ModelContext) -> JsonDict:
    """Return the setting with the provider's key; empty when an override or a file sets it.

    Raises ConfigError: the key is needed, and nobody sets it.
    """
    setting = f"{context.role}_api_key"
    if context.is_overridden("api_key"):
        return {}
    if provider.key_variable and (key := os.environ.get(provider.key_variable)):
        context.report(f"the key for {text} is that of {provider.key_variable}")
        return {setting: key}
    if context.is_in_files("api_key"):
        return {}
    if not provider.key_needed:
        return {setting: "EMPTY"}
    own_key = _own_key(text, context)
    if not provider.key_variable:
        raise ConfigError(f"{context.option} {text} needs a key", hint=f"pass it: {own_key}")
    raise ConfigError(
        f"{context.option} {text} needs a key, and {provider.key_variable} is not set",
        hint=f"set {provider.key_variable}, or name a variable of yours: {own_key}",
    )


def _own_key(text: str, context: ModelContext) -> str:
    """Return how users give the key of a model that is in a variable of theirs."""
    if context.takes_objects:
        return f"palestra.Model({text!r}, api_key=os.environ['MY_KEY'])"
    return f"'++{context.role}_api_key=${{oc.env:MY_KEY}}'"


def _server_fields(
    server: str, provider: Provider, provider_name: str = "", role: str = "policy"
) -> JsonDict:
    """Return the settings of a model server in front of `provider`."""
    url, key, name = (f"${{{role}_{setting}}}" for setting in ("base_url", "api_key", "model_name"))
    if server == "openai_model":
        return {"openai_base_url": url, "openai_api_key": key, "openai_model": name}
    fields: JsonDict = {"base_url": url, "api_key": key, "model": name}
    if server == "vllm_model":
        return {**fields, "return_token_id_information": False, "uses_reasoning_parser": True}
    if server != "inference_provider":
        return fields
    return {
        "provider": provider_name,
        **fields,
        "max_tokens_parameter": provider.max_tokens_parameter,
        "uses_interleaved_reasoning": provider.takes_reasoning_back,
    }


def _instance(context: ModelContext, server: str, fields: JsonDict) -> JsonDict:
    block = {server: {"entrypoint": "app.py", **fields}}
    return {context.instance: {ServerType.MODEL.value: block}}


def _key(context: ModelContext, settings: JsonDict) -> str:
    """Return the endpoint's API key, as the model server will receive it."""
    name = f"{context.role}_api_key"
    overrides = [item for item in context.overrides if name in item]
    config = load_config(overrides=overrides, extra=settings, require_all=False, required=())
    return str(config.tree.get(name) or "")


def _only_model(
    url: str, key: str, parsed: ModelName, provider: Provider, context: ModelContext
) -> str:
    """Wait for the endpoint, and return the name of the only model that it serves.

    Raises ConfigError: it serves no model, or several. Raises RunFailed: it does not answer in
    time.
    """
    models_url = url.rstrip("/") + "/models"
    wait = Wait.of(
        read_settings(
            Wait.SETTINGS,
            overrides=context.overrides,
            config_paths=context.configs,
            extra=context.settings or {},
        )
    )

    async def ask() -> list[str]:
        return await _listed(models_url, key, provider, context)

    option = context.option
    try:
        names = asyncio.run(wait_for(context.instance, ask, wait, context.report))
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, ValueError) else "the answer has no list of models"
        raise ConfigError(
            f"{models_url} does not say which models it serves: {reason}",
            hint=f"check that the URL ends in /v1, or name the model: {option} {MODEL_FORM}",
        ) from None
    if len(names) != 1:
        raise ConfigError(
            f"{url} serves {len(names)} models: {', '.join(names)}",
            hint=f"choose one: {option} {replace(parsed, name=names[0] if names else 'NAME')}",
        )
    return names[0]


async def _listed(
    models_url: str, key: str, provider: Provider, context: ModelContext
) -> list[str]:
    """Return the names of the models that an endpoint lists."""
    from palestra.transport import HttpClient, HttpRequest

    http = HttpClient()
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        reply = await http.send(HttpRequest("GET", models_url, headers=headers, timeout_s=10))
    finally:
        await http.aclose()
    text = excerpt(reply.body)
    text = text.replace(key, MASK) if key else text  # some endpoints repeat a rejected key
    if reply.status in {401, 403}:
        own_key = _own_key(MODEL_FORM.replace("URL", models_url.removesuffix("/models")), context)
        raise ConfigError(
            f"{models_url} answered {reply.status}: {text}",
            hint=f"set the key: {provider.key_variable or 'a variable of yours'}, or {own_key}",
        )
    if reply.status >= 500:
        raise ModelError(f"{models_url} answered {reply.status}: {text}", status=reply.status)
    if reply.status != 200:
        raise ValueError(f"it answered {reply.status}: {text}")
    return [str(item["id"]) for item in orjson.loads(reply.body)["data"]]

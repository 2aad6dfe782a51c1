"""What went wrong, as a value: the doctor looks it up and does not read our sentences."""

from enum import StrEnum


class KnownCause(StrEnum):
    """An entry of the doctor's table (`docs/troubleshooting.md`), where why and what to do stands.

    The part before the dot is the layer.
    """

    NO_FLEET = "infra.no-fleet"
    SERVER_DOES_NOT_START = "infra.server-does-not-start"
    UNREACHABLE = "infra.unreachable"
    ENDPOINT_REFUSES_EVERYTHING = "model.refuses-everything"
    KEY_REFUSED = "model.key-refused"
    MODEL_FAILS = "model.fails"
    MODEL_NOT_SERVED = "model.not-served"
    NO_CREDIT = "model.no-credit"
    NO_OPENAI_ENDPOINT = "model.no-openai-endpoint"
    NO_TOOLS = "model.no-tools"
    TLS = "model.tls"
    BAD_OVERRIDE = "config.bad-override"
    BAD_VALUE = "config.bad-value"
    BAD_YAML = "config.bad-yaml"
    CONFIG_FILE_MISSING = "config.file-missing"
    CONFIG_INVALID = "config.invalid"
    ENDPOINT_LACKS_SETTING = "config.endpoint-lacks-setting"
    MISSING_REFERENCE = "config.missing-reference"
    MISSING_VALUE = "config.missing-value"
    MISSPELT_SETTING = "config.misspelt-override"
    NO_TOKEN = "config.no-token"  # noqa: S105 - the name of a cause
    REASONING_PARSER = "config.reasoning-parser"
    ENDPOINT_REFUSES_ROW = "data.endpoint-refuses-row"
    PROMPT_TOO_LONG = "data.prompt-too-long"
    ROW_REFUSED = "data.row-refused"
    UNUSABLE_DATA = "data.unusable"
    AGENT_RAISES = "verifier.agent-raises"
    ENVIRONMENT_RAISES = "verifier.environment-raises"
    JUDGE_UNREADABLE = "verifier.judge-unreadable"
    VERIFIER_RAISES = "verifier.raises"
    BROKEN_MANIFEST = "cache.broken-manifest"
    SETTINGS_CHANGED = "cache.settings-changed"
    STALE_INPUTS = "cache.stale-inputs"
    NO_ANSWER_IN_TIME = "throughput.no-answer"

"""What errors mean: their layer, cause id, likely cause and, for want of a hint, what to do.

The first entry that fits decides. Errors are told apart by class and, where a class says many
things, by what the message says.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    Hopeless,
    InfraError,
    InputDataError,
    JudgeFailure,
    Layer,
    ModelError,
    ModelRejectedRow,
    PalestraError,
    RowError,
    ServerDied,
    VerifierError,
    WrongSetting,
)
from palestra.rollouts import StaleRun
from palestra.serving import NoFleet


@dataclass(frozen=True, slots=True)
class Known:
    """What an error means. `says` is looked for in its message; `action` is for want of a hint."""

    error: type[PalestraError]
    layer: Layer
    cause: str
    why: str
    action: str
    says: re.Pattern[str] = field(default=re.compile(""))


def _known(
    error: type[PalestraError], layer: Layer, cause: str, why: str, action: str, says: str = ""
) -> Known:
    return Known(error, layer, cause, why, action, re.compile(says, re.IGNORECASE))


KNOWN: Final = (
    _known(
        CallError,  # a wrong setting to some model servers, a refused row to others
        Layer.MODEL,
        "model.no-tools",
        "the endpoint was started without a tool parser, or its model takes no tools",
        "start vLLM with --enable-auto-tool-choice and --tool-call-parser for its model "
        "(`palestra serve-model vllm` sets both)",
        r"tool-choice|tool-call-parser|not support (?:tools|tool|function)|tool(?:s| calling) "
        r"(?:is|are) not",
    ),
    _known(
        WrongSetting,
        Layer.CONFIG,
        "config.endpoint-lacks-setting",
        "a setting asks for something that this endpoint cannot do",
        "change the setting, or the endpoint",
    ),
    _known(
        Hopeless,  # over HTTP, its subclasses arrive as itself
        Layer.MODEL,
        "model.key-refused",
        "the key is wrong, has expired, or is one for another endpoint",
        "give the right key: `++policy_api_key=${oc.env:MY_KEY}`, or policy_api_key in env.yaml",
        r"answered 40[13]|(?:incorrect|invalid) api key|api key (?:not valid|is invalid)",
    ),
    _known(
        Hopeless,
        Layer.MODEL,
        "model.no-credit",
        "the account behind the key has nothing left",
        "pay for more, or use another key",
        r"quota|billing|credit|answered 402",
    ),
    _known(
        Hopeless,
        Layer.MODEL,
        "model.not-served",
        "the name is not one that the endpoint serves, or the base URL lacks /v1",
        "set policy_model_name to a name that the endpoint lists",
        r"answered 404|model|no such path",
    ),
    _known(
        ModelRejectedRow,
        Layer.DATA,
        "data.endpoint-refuses-row",
        "the row asks for something that this endpoint never serves",
        "change what the endpoint names in the row's responses_create_params",
    ),
    _known(
        JudgeFailure,
        Layer.VERIFIER,
        "verifier.judge-unreadable",
        "the judge does not answer in the form that its prompt asks for, or is cut off",
        "use a stronger judge, ask for the labels in judge_prompt_template, or raise "
        "judge_responses_create_params.max_output_tokens",
    ),
    _known(
        VerifierError,
        Layer.VERIFIER,
        "verifier.raises",
        "the environment's own code fails on what it was given",
        "mend the line that is quoted, then `palestra verify-env`",
    ),
    _known(
        RowError,
        Layer.DATA,
        "data.row-refused",
        "the row lacks a field that the server's request model needs, or has another type",
        "mend the row, or the request model of that server",
    ),
    _known(
        DeadlineExceeded,
        Layer.THROUGHPUT,
        "throughput.no-answer",
        "what was awaited is overloaded, or hangs",
        "look at that server: `palestra status`, and its own log",
    ),
    _known(
        ModelError,
        Layer.MODEL,
        "model.fails",
        "the endpoint answers, and with an error of its own",
        "look at the endpoint's own log for the time of this check",
    ),
    _known(
        InfraError,
        Layer.INFRA,
        "infra.unreachable",
        "a server is gone, or the network to it is",
        "`palestra status` says which server is gone; start it again",
    ),
    _known(
        StaleRun,
        Layer.CACHE,
        "cache.stale-inputs",
        "the input, the prompt or a setting that rewards depend on was changed since the run began",
        "start again with --on-stale restart, or give back what was changed",
    ),
    _known(
        InputDataError,
        Layer.CACHE,
        "cache.in-use",
        "a collection runs already, here or on another machine",
        "wait for that collection, or choose another --output",
        r"another collection",
    ),
    _known(
        InputDataError,
        Layer.CACHE,
        "cache.output-exists",
        "an earlier run wrote there",
        "--resume continues that run, --overwrite moves it to .bak",
        r"exists already$",
    ),
    _known(
        InputDataError,
        Layer.CACHE,
        "cache.broken-manifest",
        "the manifest of the run to be resumed is missing, torn, or of a newer version",
        "start again with --overwrite",
        r"manifest",
    ),
    _known(
        InputDataError,
        Layer.DATA,
        "data.no-input",
        "the path is wrong, or the data were never prepared here",
        "give an existing file with --input",
        r"does not exist|has no rows",
    ),
    _known(
        InputDataError,
        Layer.DATA,
        "data.unusable",
        "the rows or their files are not what a run needs",
        "mend what is named",
    ),
    _known(
        ConfigError,
        Layer.INFRA,
        "infra.port-in-use",
        "another fleet, or another program, holds the port",
        "stop that program, or choose another port",
        r"cannot listen on|port .* (?:in use|holds it)",
    ),
    _known(
        ConfigError,
        Layer.INFRA,
        "infra.no-sandbox",
        "untrusted code needs bubblewrap, a sandbox service, or your word that it may be trusted",
        "install bubblewrap (apt-get install bubblewrap)",
        r"no sandbox for untrusted code|sandbox service|bubblewrap",
    ),
    _known(
        ConfigError,
        Layer.INFRA,
        "infra.not-installed",
        "an extra or a package that this server needs is not in this interpreter",
        "install what is named",
        r"not installed|pip install|palestra\[",
    ),
    _known(
        ConfigError,
        Layer.INFRA,
        "infra.too-few-descriptors",
        "each rollout in flight holds a socket in some process, and the limit on open files is "
        "below that",
        "raise the limit (ulimit -n), or lower --concurrency",
        r"rollouts in flight need about",
    ),
    _known(
        ConfigError,
        Layer.CONFIG,
        "config.other-fleet",
        "a fleet runs already, and was started with other settings",
        "leave out config_paths and overrides to use it as it is, or start it again",
        r"was started with other settings",
    ),
    _known(
        ConfigError,
        Layer.CONFIG,
        "config.missing-reference",
        "a server names another one that the configuration does not have",
        "correct the name, or add the config file that defines that instance",
        r"refers to|there is no server instance",
    ),
    _known(
        ConfigError,
        Layer.CONFIG,
        "config.no-dataset",
        "the configuration has no dataset of that type",
        "name a file with --input",
        r"has a dataset of type|no example dataset",
    ),
    _known(
        ConfigError,
        Layer.CONFIG,
        "config.cannot-import",
        "the server's own code fails while it is imported",
        "mend the line that is named",
        r"cannot be imported|must define exactly one",
    ),
    _known(
        ConfigError,
        Layer.CONFIG,
        "config.invalid",
        "a config file or an override says something that cannot be",
        "correct the key that is named",
    ),
    _known(
        NoFleet,
        Layer.INFRA,
        "infra.no-fleet",
        "no servers are configured here, and none run at the head's address",
        "start the fleet (`palestra run`), or name config files: --config FILE",
    ),
    _known(
        ServerDied,
        Layer.INFRA,
        "infra.server-does-not-start",
        "the server's process ended, or was not ready in time",
        "its last lines are quoted: mend what they name; ++start_timeout=<seconds> gives it longer",
    ),
)

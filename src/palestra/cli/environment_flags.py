"""`--model`, `--judge` and `--set` of commands whose configuration may be an environment in one file."""

from collections.abc import Sequence
from dataclasses import replace

from palestra.api import ModelContext, judge_config, model_config, own_overrides
from palestra.cli.console import notice
from palestra.config import ConfigTree, NamedFile, parse_overrides
from palestra.schema import JsonDict
from palestra.settings import ModelArgs, OwnSettings


def files_in(overrides: Sequence[str]) -> list[NamedFile]:
    """Return the environments in one file that the overrides name as config files."""
    lists = [o.value for o in parse_overrides(overrides) if o.steps == ("config_paths",)]
    paths = [path for item in lists for path in ([item] if isinstance(item, str) else item or ())]
    return [
        source_file for path in paths if (source_file := NamedFile.parse(str(path))) is not None
    ]


def own_settings(args: OwnSettings, overrides: list[str]) -> list[str]:
    """Return the overrides, with those of `--set`. Raises ConfigError: it is not clear whose settings
    they are.
    """
    return [*overrides, *own_overrides(None, args.own_settings, overrides)]


def with_models(
    args: ModelArgs, overrides: list[str], settings: ConfigTree
) -> tuple[list[str], JsonDict]:
    """Return the overrides and the settings of a command, with the models that its flags name.

    Without `--model` a configuration of files alone says itself which model it uses; one with an
    environment in one file gets the same model as `eval`.
    """
    overrides = own_settings(args, overrides)
    context = ModelContext(overrides, settings=settings, report=notice)
    extra: JsonDict = {}
    if args.model is not None or files_in(overrides):
        extra = model_config(args.model, context)
    if args.judge is not None:
        judging = replace(context, option="--judge", role="judge")
        judge_settings, references = judge_config(args.judge, judging, extra=extra)
        extra, overrides = {**extra, **judge_settings}, [*overrides, *references]
    return overrides, extra

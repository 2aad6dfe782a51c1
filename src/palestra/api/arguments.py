"""Refuses wrong arguments of Python functions with an error of Palestra: names that a function lacks,
and values that its type hints do not allow.

The hints of a function are all that is declared. A range is a part of them, as in `Annotated[int,
AtLeast(1)]`, and so are the words for a value that its type does not describe, as in `Annotated[RunOnDisk,
"an open run"]`.
"""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, ParamSpec, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as type_hints

import numpy as np

from palestra.authoring import environments_in_file
from palestra.config import NamedFile, did_you_mean
from palestra.errors import (
    BadInput,
    ConfigError,
    PalestraError,
    UnknownArgument,
    UnusableCall,
    excerpt,
    reword,
)
from palestra.programs import argument_of, hint_with_arguments, with_arguments
from palestra.server import table_rows
from palestra.settings import HOW_TO_GIVE, InvalidSettings, parameter_meant

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Part of the type of a number: its least value."""

    least: float


@dataclass(frozen=True, slots=True)
class Above:
    """Part of the type of a number: it is above this one."""

    bound: float


_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Mapping: "a mapping, such as {'name': value}",
}
"""What a value of a type is, for users."""
_OUR_ARGUMENTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("by", "group", "groupby"), "group_by"),
    **dict.fromkeys(
        ("n", "epochs", "num_rollouts", "num_samples", "rollouts_per_example", "num_repeats"),
        "repeats",
    ),
    **dict.fromkeys(("num_examples", "max_samples", "max_examples", "samples"), "limit"),
    **dict.fromkeys(("max_concurrent", "max_connections", "num_workers", "workers"), "concurrency"),
    **dict.fromkeys(("env", "env_id", "task", "tasks"), "environment"),
    **dict.fromkeys(("dataset", "input", "rows"), "data"),
    **dict.fromkeys(("env_args", "task_args"), "settings"),
    **dict.fromkeys(("generate_config", "sampling_args", "sampling_params"), "sampling"),
    **dict.fromkeys(("log_dir", "output_dir", "results_path", "save_to"), "output"),
    **dict.fromkeys(("timeout", "time_limit", "timeout_s"), "rollout_timeout_s"),
    **dict.fromkeys(("max_retries", "retries", "retry_on_error"), "max_attempts"),
    **dict.fromkeys(("grader", "judge_model"), "judge"),
    **dict.fromkeys(("verbose", "display"), "progress"),
    **dict.fromkeys(("force", "replace"), "overwrite"),
    **dict.fromkeys(("baseline",), "a"),
    **dict.fromkeys(("candidate",), "b"),
    "key": "api_key",
    "metric": "metrics",
    "models": "model",
    "query": "filter",
}
"""Our names of arguments, by what Inspect, verifiers, pandas and clients of OpenAI call them."""
_OF_A_MODEL: Final = frozenset(
    {"api_key", "base_url", "extra_body", "model_args", "model_base_url"}
)
"""What other products pass to an evaluation, and we to its `Model`."""
_LISTS: Final = (Sequence, Iterable)
"""The generic types for which a list is a value."""
_Misfit = tuple[str, Any, str]
"""How a wrong value is named, such as `data[0]`, the value, and what it should be."""


def checks_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, with an error of Palestra for a wrong argument.

    It raises UnknownArgument instead of Python's TypeError for a name that it lacks, and ConfigError
    for a value that its type hints do not allow. Numbers of NumPy become Python's.
    """
    signature = inspect.signature(function)
    names = list(signature.parameters)
    hints = functools.cache(lambda: type_hints(function, include_extras=True))

    def checked_values(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        __tracebackhide__ = True
        _refuse_unknown(_public_name(function), names, kwargs, args)
        _refuse_missing(_public_name(function), signature, args, kwargs)
        # What a method returns may be known to type checkers alone.
        types = hints() if kwargs or args[names[:1] == ["self"] :] else {}
        values = [_checked(name, value, types) for name, value in zip(names, args, strict=False)]
        return values, {name: _checked(name, value, types) for name, value in kwargs.items()}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        values, named_values = checked_values(args, kwargs)
        return function(*values, **named_values)

    @functools.wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
        values, named_values = checked_values(args, kwargs)
        try:
            return await cast(Any, function(*values, **named_values))
        except BadInput as error:  # without the frames of Palestra, as in `run_blocking`
            raise error.with_traceback(None) from error.__cause__

    # so that inspect knows it for what it is
    return cast(Any, awaited) if inspect.iscoroutinefunction(function) else checked


def checks_names(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, which raises UnknownArgument instead of Python's TypeError for a name that
    it lacks. For one that passes its arguments on to a function that checks their values: to check
    all rows of a dataset takes time.
    """
    signature = inspect.signature(function)
    names = list(signature.parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        _refuse_unknown(_public_name(function), names, kwargs, args)
        _refuse_missing(_public_name(function), signature, args, kwargs)
        return function(*args, **kwargs)

    return checked


def _public_name(function: Callable[..., Any]) -> str:
    """Return what users call a function: `palestra.runs` is `list_runs` in the package."""
    return function.__name__.removeprefix("list_")


def _refuse_unknown(
    function_name: str,
    names: Iterable[str],
    arguments: Mapping[str, Any],
    positional: Sequence[Any] = (),
) -> None:
    """Raise UnknownArgument: a function with parameters of these names lacks one of `arguments`.

    `positional`: the arguments without a name; the first may be an environment.
    """
    __tracebackhide__ = True
    keywords = [name for name in names if name != "self"]
    for name in arguments:
        if name not in keywords:
            raise UnknownArgument(
                f"{function_name} has no argument {name!r}"
                + (
                    _setting_advice(name, keywords, arguments, positional)
                    or _advice(name, keywords)
                ),
                argument=name,
                hint=f"its arguments: {', '.join(keywords)}",
            )


def _setting_advice(
    name: str, keywords: Sequence[str], arguments: Mapping[str, Any], positional: Sequence[Any]
) -> str:
    """Return `settings` with a setting of the environment that an unknown argument names; empty when
    the environment is not a Python file with that setting, or a class with it.
    """
    if not {"environment", "settings"} <= {*keywords}:
        return ""
    environment = positional[0] if positional else arguments.get("environment")
    if isinstance(environment, type):
        names = {field for cls in environment.__mro__ for field in inspect.get_annotations(cls)}
    else:
        file = NamedFile.parse(str(environment))
        environments = [] if file is None else environments_in_file(Path(file.path))
        names = {field for item in environments for field, *_ in item.settings}
    value = arguments[name]
    text = repr(value) if isinstance(value, bool | int | float | str) else "…"
    return f"; write settings={{{name!r}: {text}}}" if name in names else ""


def _advice(name: str, keywords: Sequence[str]) -> str:
    """Return what to write instead of an argument that a function lacks; empty when that is not
    known.
    """
    if (our_name := _OUR_ARGUMENTS.get(name)) in keywords:
        return f"; did you mean {our_name!r}?"
    if "sampling" in keywords and (parameter := parameter_meant(name)):
        return f"; write sampling={{{parameter!r}: …}}"
    if "model" in keywords and name in _OF_A_MODEL:
        return "; write it into model=palestra.Model(NAME, api_key=…, settings={…})"
    return did_you_mean(name, keywords)


def _refuse_missing(
    function_name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Iterable[str]
) -> None:
    """Raise ConfigError: an argument without a default is absent, is passed twice, or there are more
    than the function takes by position.
    """
    __tracebackhide__ = True
    try:
        signature.bind(*args, **dict.fromkeys(kwargs))
    except TypeError as error:
        names = [str(parameter) for parameter in signature.parameters if parameter != "self"]
        raise UnusableCall(
            f"{function_name}: {error}", hint=f"its arguments: {', '.join(names)}"
        ) from None


def checks_construction(cls: type[T]) -> type[T]:
    """Return a dataclass whose objects are made with the checks of `checks_names`."""
    init = cls.__init__
    init.__name__ = cls.__name__  # as messages call it
    setattr(cls, "__init__", checks_names(init))  # noqa: B010  # a method, for type checkers
    return cls


def python_function(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with the checks of `checks_arguments`, and with errors in the words of
    Python: they name arguments where commands have settings and flags. No command prints these errors.
    """
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        with _in_words_of_python(names):
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
        with _in_words_of_python(names):
            return await cast(Any, function(*args, **kwargs))

    is_async = inspect.iscoroutinefunction(function)
    return checks_arguments(cast(Any, awaited) if is_async else called)


@contextlib.contextmanager
def _in_words_of_python(names: Collection[str]) -> Iterator[None]:
    """Write errors of the body for the callers of a function with arguments of these names."""
    __tracebackhide__ = True
    try:
        yield
    except InvalidSettings as error:
        problems = [problem.named_by(argument_of) for problem in error.settings]
        if not problems:
            raise
        hint = "" if error.hint == HOW_TO_GIVE else error.hint
        raise ConfigError("; ".join(p.text() for p in problems), hint=hint) from None
    except PalestraError as error:
        reword(
            error,
            message=lambda text: with_arguments(text, names),
            hint=lambda text: hint_with_arguments(text, names),
        )
        raise


def check_fields(record: Any) -> None:
    """Raise ConfigError: a field of a dataclass has a value that its type hint does not allow."""
    for name, hint in type_hints(type(record), include_extras=True).items():
        _checked(name, getattr(record, name), {name: hint})


def _checked(name: str, value: Any, hints: Mapping[str, Any]) -> Any:
    if name not in hints:
        return value
    hint, value = hints[name], _plain(value, hints[name])
    if misfit := _misfit(name, value, hint):
        label, part, expected = misfit
        raise ConfigError(f"{label}={excerpt(repr(part))} should be {expected}")
    return value


def _plain(value: Any, hint: Any) -> Any:
    """Return a number of NumPy as one of Python, a path of any class as a `Path`, and the items of a
    generator, an array or a set, and the rows of a table, as a list.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if (number := _number(value)) is not None:
        return number
    branches = _branches(hint)
    if isinstance(value, os.PathLike):
        return Path(value) if Path in branches else value
    if isinstance(value, tuple | list) and any(get_origin(branch) is tuple for branch in branches):
        return tuple(item if (n := _number(item)) is None else n for item in value)
    is_list = any(get_origin(branch) in (*_LISTS, tuple) for branch in branches)
    if is_list and (rows := table_rows(value)) is not None:
        return rows
    has_items = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return list(value) if is_list and has_items and not isinstance(value, Sequence) else value


def _number(value: Any) -> bool | int | float | None:
    """Return a number, or a truth value of NumPy, as one of Python; None for another value."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def _misfit(label: str, value: Any, hint: Any) -> _Misfit | None:
    """Return what is wrong with a value, or with one of its items; None when the hint allows it."""
    if isinstance(value, str) and not value and Path in _branches(hint):
        return (label, value, _words(hint))
    misfits = [_branch_misfit(label, value, branch) for branch in _branches(hint)]
    if None in misfits:
        return None
    items = [misfit for misfit in misfits if misfit and misfit[0] != label]
    return items[0] if items else (label, value, _words(hint))


def _branches(hint: Any) -> Sequence[Any]:
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)


def _branch_misfit(label: str, value: Any, hint: Any) -> _Misfit | None:
    """Return what is wrong with a value for a hint that is no union."""
    origin = get_origin(hint)
    limits: tuple[Any, ...] = ()
    if origin is Annotated:
        hint, *metadata = get_args(hint)
        limits, origin = tuple(metadata), get_origin(hint)
    if not _is_of(value, origin or hint) or not all(_is_within(value, limit) for limit in limits):
        return (label, value, _words(hint))
    return next(filter(None, _item_misfits(label, value, hint)), None)


def _item_misfits(label: str, value: Any, hint: Any) -> Iterator[_Misfit | None]:
    origin, types = get_origin(hint), get_args(hint)
    if origin in _LISTS:
        for at, item in enumerate(value):
            yield _misfit(f"{label}[{at}]", item, types[0])
    elif origin is tuple and len(value) != len(types):
        yield (label, value, _words(hint))
    elif origin is tuple:
        for at, (item, item_type) in enumerate(zip(value, types, strict=True)):
            yield _misfit(f"{label}[{at}]", item, item_type)
    elif origin is Mapping and types[1] is not Any:
        for key, item in value.items():
            yield _misfit(f"{label}[{key!r}]", item, types[1])


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as people mean it: True is no number, and a text is no list."""
    if kind is Any:
        return True
    if kind in {int, float}:
        is_nan = isinstance(value, float) and isnan(value)
        return isinstance(value, (int, kind)) and not isinstance(value, bool) and not is_nan
    if kind is Path:
        return isinstance(value, Path)
    if kind in (*_LISTS, tuple):
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return isinstance(value, kind)


def _is_within(value: Any, limit: Any) -> bool:
    if isinstance(limit, AtLeast):
        return bool(value >= limit.least)
    return not isinstance(limit, Above) or bool(value > limit.bound)


def _words(hint: Any) -> str:
    """Return what a value of a hint is, for users."""
    origin, types = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        with_path = Path in types  # of which a text is one, too
        skipped = {NoneType, str} if with_path else {NoneType}
        texts = [_words(branch) for branch in types if branch not in skipped]
        return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    if origin is Annotated:
        texts = [_limit_words(limit) for limit in types[1:]]
        own_words = [text for text in types[1:] if isinstance(text, str)]
        return own_words[0] if own_words else _words(types[0]) + "".join(texts)
    if origin in _LISTS:
        return "a list" if types[0] is Any else f"a list, each item {_words(types[0])}"
    if origin is tuple:
        return f"({', '.join(map(_words, types))})"
    kind = origin or hint
    return _WORDS.get(kind) or f"a {kind.__name__}"


def _limit_words(limit: Any) -> str:
    if isinstance(limit, AtLeast):
        return f" from {limit.least} on"
    return f" above {limit.bound}" if isinstance(limit, Above) else ""

"""What a hosted server returns with a reward: a finite number, and the tools that failed.

It is seen to at the author's function, because JSON has no NaN: it would be null for whoever reads
the answer, and an agent may make a reward of that.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import ResponseValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import Response as HttpResponse

from palestra.compat.refused_answers import naming_refusals
from palestra.compat.unchecked_models import warn_of_wrong_types
from palestra.compat.whole_messages import json_object
from palestra.config import ServerType
from palestra.errors import CallError
from palestra.schema import (
    FAILURE_CLASS,
    JSON_TYPE,
    TOOL_FAILURES,
    JsonDict,
    encode_json,
    field_of,
    infinite_component,
    is_infinite,
    no_reward,
    short_repr,
)
from palestra.server import CalledExit, function_and_line, refuse_reward, stops_this_task
from palestra.transport import REWARD_PATHS, Activity, current_call, fault_of, noting_questions

_REWARDS: Final = {
    "/verify": ServerType.RESOURCES,
    "/step": ServerType.RESOURCES,
    "/run": ServerType.AGENT,
}
"""Endpoints whose answers have a reward, and the type of the server that has them."""

_NUMBER: Final = TypeAdapter(float)

_WHOLE_RESULTS: Final = frozenset({"/verify", "/run"})
"""Those of them whose answers are the whole row."""


def complete_results(app: FastAPI, server: str) -> None:
    """Check the results of `app`, add the failed tool calls, let no function end the process by
    SystemExit, and name the server whose answer made a function fail, or whose own answer has fields
    of wrong types. Call it once, after all routes were added.
    """
    for route in app.routes:
        if not isinstance(route, APIRoute):
            continue
        where = f"{server}{route.path}"
        warn_of_wrong_types(route.response_field, where)
        function: Any = naming_refusals(_without_exit(route.dependant.call), where)
        if route.path in _REWARDS:
            function = _completed(function, route, where)
        route.dependant.call = function


def _without_exit(function: Any) -> Any:
    """Return `function` with `CalledExit` in place of SystemExit and KeyboardInterrupt: a middleware
    of the author's app calls it in a task of its own.
    """
    if not inspect.iscoroutinefunction(function):
        return function  # it runs on a thread, whose SystemExit ends no loop

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            if stops_this_task(error):
                raise
            raise CalledExit from error

    return call


def encoded_answer(route: APIRoute, value: Any) -> bytes:
    """Return what a route's function returned as JSON, in the form of its response model.

    Raises ResponseValidationError: the response model rejects it.
    """
    if route.response_field is None:
        return encode_json(jsonable_encoder(value))
    checked, errors = route.response_field.validate(value, {}, loc=("response",))
    if errors:
        raise ResponseValidationError(errors=errors, body=value)
    return route.response_field.serialize_json(checked)


def _completed(function: Callable[..., Any], route: APIRoute, where: str) -> Callable[..., Any]:
    def completed(value: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            checked = _checked(_returned(value, route, where), where)
        except CallError as error:
            error.evidence = replace(error.evidence, traceback=function_and_line(function))
            raise
        return _with_tool_failures(checked, route, arguments)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def complete(*args: Any, **kwargs: Any) -> Any:
            if route.path not in REWARD_PATHS:
                return completed(await function(*args, **kwargs), kwargs)
            with noting_questions(where) as questions:
                value = await function(*args, **kwargs)
            questions.refuse(_result_in(value))
            return completed(value, kwargs)
    else:

        @wraps(function)
        def complete(*args: Any, **kwargs: Any) -> Any:
            if route.path not in REWARD_PATHS:
                return completed(function(*args, **kwargs), kwargs)
            with noting_questions(where) as questions:
                value = function(*args, **kwargs)
            questions.refuse(_result_in(value))
            return completed(value, kwargs)

    return complete


def _returned(value: Any, route: APIRoute, where: str) -> Any:
    """Return the value. Raises CallError: it is None, as of a function that lacks a `return`; a
    number, a text or a sequence; or a mapping without the fields that the response model requires.
    """
    model = route.response_model
    lacks = ""
    if isinstance(value, Mapping):
        missing = _missing_fields(value, model)
        if not missing:
            _refuse_wrong_kind(value, route, where)
            return value
        lacks = f" without {', '.join(missing)}"
    elif value is not None and not (route.path in _WHOLE_RESULTS and _is_no_result(value)):
        return value
    is_model = _is_pydantic(model)
    expected = model.__name__ if is_model else "a result with a reward"
    kind = type(value).__name__
    returned = "None" if value is None else f"a {kind}{lacks} ({short_repr(value)})"
    hint = f"return the result on every way through `{route.name}`"
    if is_model and value is not None:
        hint = f"return {expected}(**body.model_dump(), …) from `{route.name}`, with the reward"
    raise fault_of(_REWARDS[route.path], route.path)(
        f"{where} returned {returned}, expected {expected}", hint=hint
    )


def _refuse_wrong_kind(value: Mapping[str, Any], route: APIRoute, where: str) -> None:
    """Raise CallError: the reward in a mapping is no number, where the response model needs one."""
    model = route.response_model
    field = model.model_fields.get("reward") if _is_pydantic(model) else None
    if field is None or field.annotation is not float or field.metadata or _converts(model):
        return
    if FAILURE_CLASS in value or "reward" not in value:
        return
    reward = value.get("reward")
    try:
        _NUMBER.validate_python(reward)
    except ValidationError:
        kind = "" if reward is None else f" ({type(reward).__name__})"
        raise fault_of(_REWARDS[route.path], route.path)(
            f"{where} returned the reward {short_repr(reward)}{kind}, which is no number",
            hint=f"return a number as the reward from `{route.name}`, such as 1.0",
        ) from None


def _is_pydantic(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, BaseModel)


def _converts(model: type[BaseModel]) -> bool:
    """Whether a response model may fill fields in, or make a number of another value."""
    decorators = model.__pydantic_decorators__
    modes: list[str] = [validator.info.mode for validator in decorators.model_validators.values()]
    modes += [validator.info.mode for validator in decorators.field_validators.values()]
    return any(mode != "after" for mode in modes)


def _is_no_result(value: Any) -> bool:
    return isinstance(value, int | float | str | bytes) or type(value) in {tuple, list, set}


def _missing_fields(value: Mapping[str, Any], model: Any) -> list[str]:
    """Return the fields that the response model requires and a mapping lacks."""
    if not _is_pydantic(model) or _converts(model):
        return []
    return [
        name
        for name, field in model.model_fields.items()
        if field.is_required() and field.validation_alias is None and name not in value
    ]


def _checked(value: Any, where: str) -> Any:
    """Return the value. Raises VerifierError: its reward or one of its components is NaN or
    infinite. The response model checks everything else.
    """
    result = _result_in(value)
    if field_of(result, FAILURE_CLASS):
        return value
    reward = field_of(result, "reward")
    was_null = reward is None and isinstance(value, HttpResponse) and "reward" in (result or ())
    bad_reward = no_reward(reward) if was_null or is_infinite(reward) else ""
    refuse_reward(where, bad_reward or infinite_component(result))
    return value


def _with_tool_failures(value: Any, route: APIRoute, arguments: Mapping[str, Any]) -> Any:
    """Return the value; as a response with the rollout's failed tool calls, when it leaves some of
    them out. `arguments`: those of the author's function.

    The response keeps the status, the headers and the cookies that the author set.
    """
    activity = current_call().activity
    if activity is None or route.path != "/run":
        return value
    if not activity.tool_failures and not activity.agent_faults:
        return value
    is_response = isinstance(value, HttpResponse)
    fields = _object_in(value) if is_response else json_object(encoded_answer(route, value))
    failures = None if fields is None else _all_failures(fields, activity)
    if fields is None or not failures or failures == fields.get(TOOL_FAILURES):
        return value
    content = encode_json({**fields, TOOL_FAILURES: failures})
    if is_response:
        value.body = content
        value.headers["content-length"] = str(len(content))
        return value
    set_by_function = arguments.get(route.dependant.response_param_name or "")
    status = getattr(set_by_function, "status_code", None) or route.status_code or HTTPStatus.OK
    response = HttpResponse(content, status, media_type=JSON_TYPE)
    response.raw_headers.extend(getattr(set_by_function, "raw_headers", ()))
    return response


def _all_failures(fields: JsonDict, activity: Activity) -> Any:
    """Return the failed tool calls of a row, those that its environment lists before those that its
    agent has seen.
    """
    failures = fields.get(TOOL_FAILURES, activity.tool_failures)
    if not isinstance(failures, list):
        return failures
    # What a tool raised in the rollout's session is in the answer of `verify` too.
    listed = {field_of(failure, "tool") for failure in failures}
    return [*failures, *(fault for fault in activity.agent_faults if fault["tool"] not in listed)]


def _result_in(value: Any) -> Any:
    """Return what a function returned; of a whole response its JSON object, or None."""
    return _object_in(value) if isinstance(value, HttpResponse) else value


def _object_in(response: HttpResponse) -> JsonDict | None:
    """Return the JSON object of a successful response; None when it is anything else."""
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        return None
    return json_object(bytes(getattr(response, "body", b"")))

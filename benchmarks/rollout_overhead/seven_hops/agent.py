"""The baseline's agent: `python -m ...agent BODIES MODEL_URL RESOURCES_URL`."""

import sys
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi import Response as HttpResponse

from benchmarks.rollout_overhead.seven_hops.http import Client, bodies, make_app, parse, serve


async def respond(
    client: Client, kinds: Any, model: str, resources: str, params: Any, cookies: Mapping[str, str]
) -> tuple[Any, dict[str, str]]:
    """Turns until the model calls no tool; the response holds the whole trajectory."""
    trajectory: list[Any] = []
    asked = list(params.input)
    kept = dict(cookies)
    while True:
        request = params.model_copy(update={"input": asked + trajectory})
        raw, kept = await client.post(model + "/v1/responses", request, kept)
        turn = parse(kinds.Response, raw)
        trajectory += turn.output
        calls = [item for item in turn.output if isinstance(item, kinds.Call)]
        if not calls:
            return turn.model_copy(update={"output": trajectory}), kept
        for call in calls:
            arguments = orjson.loads(call.arguments)
            raw, kept = await client.post(f"{resources}/{call.name}", arguments, kept)
            output = raw.decode()
            # `type` is said, because fields that nobody set are not sent.
            trajectory.append(
                kinds.Output(type="function_call_output", call_id=call.call_id, output=output)
            )


def build(own: str) -> FastAPI:
    """`/run`, and the loop alone at `/v1/responses`."""
    app = make_app("agent")
    client = Client()
    kinds = bodies(sys.argv[1])
    model, resources = sys.argv[2], sys.argv[3]

    @app.post("/v1/responses")
    async def responses(
        body: kinds.Params, request: Request, answer: HttpResponse
    ) -> kinds.Response:
        response, cookies = await respond(client, kinds, model, resources, body, request.cookies)
        for name, value in cookies.items():
            answer.set_cookie(name, value)
        return response

    @app.post("/run")
    async def run(body: kinds.Row, request: Request) -> kinds.Rewarded:
        _, cookies = await client.post(resources + "/seed_session", body, request.cookies)
        raw, cookies = await client.post(
            own + "/v1/responses", body.responses_create_params, cookies
        )
        response = parse(kinds.Response, raw)
        trajectory = kinds.Trajectory(
            **{**body.__dict__, **(body.model_extra or {})}, response=response
        )
        raw, _ = await client.post(resources + "/verify", trajectory, cookies)
        return parse(kinds.Rewarded, raw)

    return app


if __name__ == "__main__":
    serve(build)

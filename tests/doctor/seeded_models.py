"""Faults of the model's endpoint, and of the judge's."""

from seeded_faults import Steps, always, mended, refuses, seeded, tried_again
from seeded_world import KEY, Asked, Cut, Deed, Reply, World, completion, fine, json_reply, task


@seeded("model.key-refused", "Incorrect API key")
def a_key_that_is_refused(world: World) -> Steps:
    def by_key(asked: Asked) -> Deed:
        if f"Bearer {KEY}" in world.upstream.keys:
            return fine(asked)
        return json_reply({"error": {"message": "Incorrect API key provided: sk-w****"}}, 401)

    world.upstream.keys.clear()
    world.upstream.plan = by_key
    yield world.collect("++policy_api_key=sk-wrong-wrong-wrong")
    yield world.collect()


@seeded("model.key-refused", "Incorrect API key")
def a_judges_key_that_is_refused(world: World) -> Steps:
    world.write("tasks.jsonl", [task("judge")])
    world.upstream.plan = refuses(401, "Incorrect API key provided: sk-x", model="judge")
    yield world.collect()
    yield mended(world)


@seeded("model.not-served", "The model `nonesuch` does not exist")
def a_model_that_is_not_served(world: World) -> Steps:
    world.upstream.plan = refuses(404, "The model `nonesuch` does not exist.", model="nonesuch")
    yield world.collect("++policy_model_name=nonesuch")
    yield world.collect()


@seeded("model.not-served", "The model `judge` does not exist", "out/run")
def a_judges_model_that_is_not_served(world: World) -> Steps:
    """The rollout that met it is recorded: without a log it is named, and goes on afterwards."""
    world.write("tasks.jsonl", [task(), task("judge")])
    world.upstream.plan = refuses(404, "The model `judge` does not exist.", model="judge")
    yield world.collect()
    world.upstream.plan = fine
    yield world.collect(resume_from_cache=True)


@seeded("model.no-openai-endpoint", "Not Found")
def a_base_url_without_its_path(world: World) -> Steps:
    page = Reply(b"<html><head><title>404 Not Found</title></head></html>", 404)
    world.upstream.plan = always(page)
    yield world.collect()
    yield mended(world)


@seeded("model.unreachable", "Connection refused")
def an_endpoint_that_is_not_there(world: World) -> Steps:
    patience = "++model_endpoint_readiness_timeout_seconds=0.1"
    yield world.collect("++policy_base_url=http://127.0.0.1:9/v1", patience)
    yield world.collect()


@seeded("model.overloaded", "answered 503", "out/run")
def an_endpoint_that_is_overloaded(world: World) -> Steps:
    world.upstream.plan = always(Reply(b"busy", 503))
    yield world.collect(rollout_timeout=1)
    yield tried_again(world)


@seeded("model.no-openai-endpoint", "It works!", "out/run")
def a_web_server_for_an_endpoint(world: World) -> Steps:
    world.upstream.plan = always(Reply(b"<html><body>It works!</body></html>"))
    yield world.collect()
    yield tried_again(world)


@seeded("model.no-tools", "--enable-auto-tool-choice")
def an_endpoint_without_a_tool_parser(world: World) -> Steps:
    sentence = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'
    world.upstream.plan = refuses(400, sentence)
    yield world.collect()
    yield mended(world)


@seeded("model.answers-cut", "max_output_tokens", "out/run")
def a_limit_on_answers_that_is_too_small(world: World) -> Steps:
    said = completion("I think")
    said["choices"][0]["finish_reason"] = "length"
    world.upstream.plan = always(json_reply(said))
    yield world.collect()
    yield mended(world)


@seeded("model.connection-broken", "connection broke", "out/run")
def an_endpoint_that_cuts_its_answers(world: World) -> Steps:
    world.upstream.plan = always(Cut(b'{"id"'))
    yield world.collect(rollout_timeout=3)
    yield tried_again(world)


@seeded("model.gpu-memory", "CUDA out of memory", "out/run")
def a_judges_gpu_that_is_full(world: World) -> Steps:
    """Verifier, judge and provider: the innermost is named, with its row."""
    world.write("tasks.jsonl", [task("judge")])
    world.upstream.plan = refuses(500, "CUDA out of memory", model="judge")
    yield world.collect()
    yield tried_again(world)


@seeded("model.fails", "EngineCore", "out/run")
def an_endpoint_with_an_error_of_its_own(world: World) -> Steps:
    world.upstream.plan = refuses(500, "EngineCore encountered an issue")
    yield world.collect()
    yield tried_again(world)


@seeded("model.broken-off", "finish_reason", "out/run")
def an_endpoint_that_aborts(world: World) -> Steps:
    said = completion("half")
    said["choices"][0]["finish_reason"] = "abort"
    world.upstream.plan = always(json_reply(said))
    yield world.collect()
    yield tried_again(world)


@seeded("data.prompt-too-long", "maximum context length", "out/run")
def a_context_that_is_too_short(world: World) -> Steps:
    sentence = "This model's maximum context length is 4096 tokens. However, you requested 5000"
    world.upstream.plan = refuses(400, sentence)
    yield world.collect()
    yield mended(world)

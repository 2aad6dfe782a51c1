"""Faults of the environment's code, and of its judge; and slow ones."""

from collections.abc import Callable

from seeded_faults import Steps, always, judged, refuses, seeded, tried_again
from seeded_world import Hang, World, completion, json_reply, task


def deed_that_breaks(deed: str) -> Callable[[World], Steps]:
    """The environment does it for its row; mended, it does so no more."""

    def steps(world: World) -> Steps:
        world.write("tasks.jsonl", [task(), task(deed)])
        yield world.collect()
        app = "resources_servers/seeded_env/app.py"
        world.edit(app, f'"{deed}"', '"never"')
        yield world.collect(overwrite=True)

    steps.__name__ = f"an_environment_that_{deed.replace(' ', '_')}"
    return steps


RAISES = seeded("verifier.raises", 'raise ZeroDivisionError("no answers', "out/run")(
    deed_that_breaks("raises")
)
SEED_RAISES = seeded("verifier.environment-raises", "there is no such world", "out/run")(
    deed_that_breaks("seed raises")
)
EXITS = seeded("verifier.raises", "SystemExit: 3")(deed_that_breaks("exits"))
NAN = seeded("verifier.no-reward", "returned nan", "out/run")(deed_that_breaks("nan"))
NONE = seeded("verifier.no-reward", "returned None")(deed_that_breaks("none"))
NO_JSON = seeded("verifier.not-json", "not JSON serializable", "out/run")(
    deed_that_breaks("object")
)


@seeded("config.cannot-import", "match body.deed")
def a_verifier_that_is_no_python(world: World) -> Steps:
    app = "resources_servers/seeded_env/app.py"
    world.edit(app, "match body.deed:", "match body.deed")
    yield world.collect()
    world.edit(app, "match body.deed", "match body.deed:")
    yield world.collect()


@seeded("verifier.judge-unreadable", "I rather like it", "out/run")
def a_judge_that_answers_prose(world: World) -> Steps:
    world.write("tasks.jsonl", [task("judge")])
    world.upstream.plan = judged("I rather like it.")
    yield world.collect()
    yield tried_again(world)


@seeded("verifier.judge-cut-off", "was cut off", "out/run")
def a_judge_that_is_cut_off(world: World) -> Steps:
    world.write("tasks.jsonl", [task("judge")])
    world.upstream.plan = judged("Let me think", "length")
    yield world.collect()
    yield tried_again(world)


@seeded("throughput.rate-limited", "answered 429", "out/run")
def an_endpoint_with_a_rate_limit(world: World) -> Steps:
    world.upstream.plan = refuses(429, "Rate limit reached for requests")
    yield world.collect(rollout_timeout=1)
    yield tried_again(world)


@seeded("throughput.model-slow", "no answer within", "out/run")
def a_model_that_hangs(world: World) -> Steps:
    world.upstream.plan = always(Hang())
    yield world.collect(rollout_timeout=0.5)
    yield tried_again(world)


@seeded("throughput.judge-slow", "no answer within", "run.log")
def a_judge_that_hangs(world: World) -> Steps:
    world.write("tasks.jsonl", [task("judge")])
    world.upstream.plan = always(Hang(), model="judge")
    yield world.collect(rollout_timeout=0.5)
    yield tried_again(world)


@seeded("throughput.tool-slow", "awaiting tool look_up", "out/run")
def a_tool_that_hangs(world: World) -> Steps:
    call = {"name": "look_up", "arguments": '{"name": "slowly"}'}
    calls = [{"id": "call_1", "type": "function", "function": call}]
    world.upstream.plan = always(json_reply(completion("", calls)))
    yield world.collect(rollout_timeout=0.5)
    yield tried_again(world)


@seeded("throughput.verifier-slow", "awaiting seeded_env /verify", "out/run")
def a_verifier_that_hangs(world: World) -> Steps:
    world.write("tasks.jsonl", [task("hangs")])
    yield world.collect(rollout_timeout=0.5)
    world.edit("resources_servers/seeded_env/app.py", '"hangs"', '"never"')
    yield world.collect(overwrite=True)


@seeded("throughput.blocks-event-loop", "time.sleep(1.2)")
def an_event_loop_that_is_blocked(world: World) -> Steps:
    world.write("tasks.jsonl", [task("blocks")])
    yield world.collect()
    app = "resources_servers/seeded_env/app.py"
    world.edit(app, "time.sleep(1.2)", "await asyncio.to_thread(time.sleep, 1.2)")
    yield world.collect(overwrite=True)

"""Faults of the configuration, and of the rows."""

import gzip

from seeded_faults import Steps, always, mended, refuses, seeded
from seeded_world import World, completion, json_reply, task


@seeded("config.missing-agent", "seeded_agnet")
def an_agent_that_is_misspelt(world: World) -> Steps:
    yield world.collect(agent_name="seeded_agnet")
    yield world.collect()


@seeded("config.missing-agent", "mcqa_simple_agent")
def rows_of_another_bundle(world: World) -> Steps:
    other = {"type": "responses_api_agents", "name": "mcqa_simple_agent"}
    world.write("tasks.jsonl", [task(agent_ref=other)])
    yield world.collect(agent_name=None)
    world.write("tasks.jsonl", [task()])
    yield world.collect()


@seeded("config.misspelt-override", "num_repeat")
def an_override_that_is_misspelt(world: World) -> Steps:
    yield world.collect("++num_repeat=2")
    yield world.collect("++num_repeats=2")


@seeded("config.misspelt-override", "max_step is not a setting")
def a_servers_setting_that_is_misspelt(world: World) -> Steps:
    agent = "++seeded_agent.responses_api_agents.simple_agent"
    yield world.collect(f"{agent}.max_step=2")
    yield world.collect(f"{agent}.max_steps=2")


@seeded("config.file-missing", "configs/sedeed.yaml")
def a_config_that_is_not_there(world: World) -> Steps:
    yield world.collect("+config_paths=[configs/sedeed.yaml]")
    yield world.collect()


@seeded("config.missing-value", "policy_url")
def a_value_that_nobody_gives(world: World) -> Steps:
    world.edit("configs/seeded.yaml", "${policy_base_url}", "${policy_url}")
    yield world.collect()
    yield world.collect(f"++policy_url={world.url}")


@seeded("config.missing-reference", "sedeed_env")
def a_reference_to_nothing(world: World) -> Steps:
    config = "configs/seeded.yaml"
    world.edit(config, "name: seeded_env}", "name: sedeed_env}")
    yield world.collect()
    world.edit(config, "name: sedeed_env}", "name: seeded_env}")
    yield world.collect()


@seeded("config.bad-yaml", "judge_model_server")
def a_config_that_is_not_yaml(world: World) -> Steps:
    world.edit("configs/seeded.yaml", "      judge_model_server", "     judge_model_server")
    yield world.collect()
    world.edit("configs/seeded.yaml", "     judge_model_server", "      judge_model_server")
    yield world.collect()


@seeded("config.bad-value", "strictness")
def a_value_of_the_wrong_kind(world: World) -> Steps:
    environment = "++seeded_env.resources_servers.seeded_env"
    yield world.collect(f"{environment}.strictness=very")
    yield world.collect(f"{environment}.strictness=2.5")


@seeded("config.no-judge", "no judge model is configured", "out/run")
def a_judge_that_nobody_names(world: World) -> Steps:
    config, judge = "configs/seeded.yaml", "{type: responses_api_models, name: judge_model}"
    world.edit(config, f"judge_model_server: {judge}", "judge_model_server: null")
    world.write("tasks.jsonl", [task("judge")])
    yield world.collect()
    world.edit(config, "judge_model_server: null", f"judge_model_server: {judge}")
    yield world.collect(overwrite=True)


@seeded("config.reasoning-parser", "uses_reasoning_parser")
def a_reasoning_parser_that_is_denied(world: World) -> Steps:
    said = completion("42")
    said["choices"][0]["message"]["reasoning_content"] = "Let me think."
    world.upstream.plan = always(json_reply(said))
    setting = "++policy_model.responses_api_models.vllm_model.uses_reasoning_parser"
    yield world.collect(f"{setting}=false")
    yield world.collect(f"{setting}=true")


@seeded("data.not-json", '{"responses_create_params": {"input": "x"')
def a_row_that_is_cut_off(world: World) -> Steps:
    world.write("tasks.jsonl", [task(), '{"responses_create_params": {"input": "x"'])
    yield world.collect()
    world.write("tasks.jsonl", [task()])
    yield world.collect()


@seeded("data.not-json", "UTF-16")
def a_file_of_another_encoding(world: World) -> Steps:
    path = world.folder / "tasks.jsonl"
    plain = path.read_bytes()
    path.write_bytes(plain.decode().encode("utf-16"))
    yield world.collect()
    path.write_bytes(gzip.compress(plain))
    yield world.collect()


@seeded("data.bad-request", '{"deed": "fine"}')
def a_row_without_a_request(world: World) -> Steps:
    world.write("tasks.jsonl", [task(), {"deed": "fine"}])
    yield world.collect()
    world.write("tasks.jsonl", [task()])
    yield world.collect()


@seeded("data.bad-request", '"role": "robot"')
def a_role_that_there_is_not(world: World) -> Steps:
    asked = {"input": [{"role": "robot", "content": "hello"}]}
    world.write("tasks.jsonl", [{**task(), "responses_create_params": asked}])
    yield world.collect()
    world.write("tasks.jsonl", [task()])
    yield world.collect()


@seeded("data.row-refused", "deed")
def a_field_that_is_missing(world: World) -> Steps:
    world.write("tasks.jsonl", [{"responses_create_params": {"input": "What is it?"}}])
    yield world.collect()
    world.write("tasks.jsonl", [task()])
    yield world.collect()


@seeded("data.row-refused", "a deed should be something else", "out/run")
def a_row_that_the_environment_refuses(world: World) -> Steps:
    world.write("tasks.jsonl", [task("is no row")])
    yield world.collect()
    world.write("tasks.jsonl", [task()])
    yield world.collect(overwrite=True)


@seeded("data.tool-schema", "boolean schemas are not supported", "out/run")
def a_schema_that_the_grammar_compiler_rejects(world: World) -> Steps:
    sentence = "Failed to convert the grammar from JSON schema: boolean schemas are not supported"
    world.upstream.plan = refuses(400, sentence)
    yield world.collect()
    yield mended(world)


@seeded("data.roles", "must alternate", "out/run")
def an_order_of_roles_that_no_template_takes(world: World) -> Steps:
    world.upstream.plan = refuses(400, "Conversation roles must alternate user/assistant")
    yield world.collect()
    yield mended(world)


@seeded("data.content-refused", "content management policy", "out/run")
def a_row_that_a_filter_refuses(world: World) -> Steps:
    sentence = "The response was filtered due to Azure OpenAI's content management policy."
    world.upstream.plan = refuses(400, sentence)
    yield world.collect()


@seeded("data.no-input", "task.jsonl does not exist")
def an_input_that_is_not_there(world: World) -> Steps:
    yield world.collect(input_jsonl_fpath="task.jsonl")
    yield world.collect()


@seeded("data.prompt-conflict", "prompt_config would replace it")
def a_prompt_for_rows_that_have_theirs(world: World) -> Steps:
    (world.folder / "prompt.yaml").write_text('user: "{deed}"\n')
    yield world.collect(prompt_config="prompt.yaml")
    yield world.collect()

"""Configurations, new environments, their tests, and what there is."""

from nemo_gym_page.command import Command, Session, alone

SESSIONS = (
    *alone(
        Command(
            "The configuration as it is read",
            'ng_dump_config "+config_paths=[resources_servers/multineedle/configs/multineedle.yaml,'
            'responses_api_models/openai_model/configs/openai_model.yaml]"',
            (r"is now called", r"^example_multi_step_resources_server:$", r"openai_api_key"),
        ),
        Command(
            "Other sets of mathematics",
            'ng_dump_config "+config_paths=['
            "resources_servers/math_with_judge/configs/bytedtsinghua_dapo17k.yaml,"
            'responses_api_models/openai_model/configs/openai_model.yaml]"',
            (r"should_use_judge", r"jsonl_fpath: .*dapo17k_bytedtsinghua_train", r"version: 0.0.1"),
        ),
        Command(
            "Where full data come from",
            'ng_dump_config "+config_paths=[resources_servers/math_with_judge/configs/dapo17k.yaml,'
            'responses_api_models/openai_model/configs/openai_model.yaml]" | grep -A 12 "type: val"\n'
            'ng_dump_config "+config_paths=[resources_servers/code_gen/configs/code_gen.yaml,'
            'responses_api_models/openai_model/configs/openai_model.yaml]" | grep -A 12 "type: val"',
            (r"jsonl_fpath: .*(aime24|livecodebench_v5)", r"num_repeats: (32|10)", r"repo_id: "),
        ),
        Command(
            "The tests of one server",
            "ng_test +entrypoint=responses_api_agents/simple_agent",
            (r"simple_agent +tests",),
        ),
    ),
    Session(
        (
            Command(
                "A new environment",
                "ng_init_resources_server +entrypoint=resources_servers/my_env\n"
                "grep -E 'type: (train|validation|example)' resources_servers/my_env/configs/my_env.yaml",
                (r"^made ", r"type: (train|validation|example)$"),
            ),
            Command(
                "The tests of every server",
                "ng_test_all",
                (r"^ my_env +tests +passed", r"^1 of 1 pass"),
            ),
        )
    ),
    *alone(
        Command(
            "What is installed, and the commands there are",
            "ng_version | cut -d' ' -f1\n"
            "ng_help | grep -xE 'ng_(run|status|collect_rollouts|reward_profile|prepare_data|test_all)'\n"
            "ng_pip_list +entrypoint=resources_servers/mcqa +format=freeze | grep -oE '^pydantic=='",
            (r"^palestra$", r"^ng_", r"^pydantic==$"),
        ),
        Command(
            "Whether servers are running",
            "ng_status",
            (r"^No Palestra servers found running\.$",),
        ),
        Command(
            "Palestra's own tests, in a checkout of it",
            "ng_dev_test --help",
            (r"^ng_dev_test: ",),
        ),
        Command(
            "Skills for a coding agent",
            "palestra skills install .claude/skills",
            (r"skills/palestra-",),
        ),
    ),
)

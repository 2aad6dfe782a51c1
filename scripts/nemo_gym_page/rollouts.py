"""Servers, rollouts, what their rewards say, and what is searched for when they fail."""

from nemo_gym_page.command import Command, Session
from palestra.testing import EndpointError

MATH = (
    'config_paths="resources_servers/math_with_judge/configs/math_with_judge.yaml,\\\n'
    'responses_api_models/openai_model/configs/openai_model.yaml"\n'
    'ng_run "+config_paths=[${config_paths}]"'
)
COLLECT = (
    "ng_collect_rollouts \\\n"
    "    +agent_name=math_with_judge_simple_agent \\\n"
    "    +input_jsonl_fpath=resources_servers/math_with_judge/data/example.jsonl \\\n"
    "    +output_jsonl_fpath=results/rollouts.jsonl"
)

DEBUG = "++global_aiohttp_client_request_debug=True"

SESSIONS = (
    Session(
        (
            Command(
                "Servers and rollouts",
                f"ng_status | tail -n 1\n{COLLECT}",
                (r"servers found", r"^requested 5 = ", r"^  results/rollouts"),
            ),
            Command(
                "Metrics of several files of rollouts",
                "ng_aggregate_rollouts \\\n"
                "    +input_glob=results/rollouts.jsonl \\\n"
                "    +output_jsonl_fpath=results/all.jsonl",
                (r"^requested 5 = ", r"^  results/all"),
            ),
            Command(
                "Where a server's time goes",
                "head -n 2 results/profiling/math_with_judge.log | awk '{print $1, $2, $3}'",
                (
                    r"where its time went is in .*math_with_judge\.log",
                    r"^name ncall tsub$",
                    r"app\.py:\S+ \S+\.verify 5$",
                ),
                when_stopped=True,
            ),
            Command(
                "What rewards say",
                "ng_reward_profile \\\n"
                "    +materialized_inputs_jsonl_fpath=results/rollouts_materialized_inputs.jsonl \\\n"
                "    +rollouts_jsonl_fpath=results/rollouts.jsonl",
                (r"^ math_with_judge_simple_agent +5 +5/5", r"^  results/rollouts_"),
                when_stopped=True,
            ),
            Command(
                "Rollouts in the browser",
                "timeout --preserve-status -s INT 8 ng_viewer +jsonl_fpath=results/rollouts.jsonl",
                (r"^http://127\.0\.0\.1:7860/",),
                when_stopped=True,
            ),
        ),
        servers=f"{MATH} \\\n"
        "    +profiling_enabled=true \\\n"
        "    +profiling_results_dirpath=results/profiling",
    ),
    Session(
        (
            Command(
                "What the debugging guide searches for",
                f"{COLLECT} \\\n    {DEBUG} 2>&1 | tee ng_collect_rollouts.log\n"
                "grep -ohE 'Request info:|Request kwargs:|Response content:|"
                "Hit an exception in [^ ]+ calling an inner server|"
                "\\[rollout_collection\\] /run failed' ng_run.log ng_collect_rollouts.log | sort -u",
                (
                    "^Request info:$",
                    "^Request kwargs:$",
                    "^Response content:$",
                    r"^Hit an exception in \S+ calling an inner server$",
                    r"^\[rollout_collection\] /run failed$",
                ),
            ),
            Command(
                "What a failure is put down to",
                "palestra diagnose results/rollouts.jsonl | tee diagnosis.txt",
                (
                    # The two parts that name the row are left out: which row it is, is chance.
                    r"failing layer:",
                    r"likely cause:",
                    r"next concrete action:",
                ),
                when_stopped=True,
            ),
        ),
        servers=f"{MATH} \\\n    {DEBUG} > ng_run.log 2>&1",
        answers=(EndpointError(400, "no such thing"), *["\\boxed{4}"] * 4),
    ),
    Session(
        (
            Command(
                "A benchmark made by its script",
                "cat > prepare_sums.py <<'END'\n"
                "import json\n"
                "from pathlib import Path\n"
                "\n"
                "\n"
                "def prepare():\n"
                '    row = {"question": "What is 2 + 2?", "expected_answer": "4",\n'
                '           "responses_create_params": {"input": "What is 2 + 2?"}}\n'
                '    path = Path("sums.jsonl")\n'
                '    path.write_text(json.dumps(row) + "\\n")\n'
                "    return path\n"
                "END\n"
                "cat > sums.yaml <<'END'\n"
                "config_paths:\n"
                "- resources_servers/math_with_judge/configs/math_with_judge.yaml\n"
                "- responses_api_models/openai_model/configs/openai_model.yaml\n"
                "sums_agent:\n"
                "  responses_api_agents:\n"
                "    simple_agent:\n"
                "      entrypoint: app.py\n"
                "      resources_server: {type: resources_servers, name: math_with_judge}\n"
                "      model_server: {type: responses_api_models, name: policy_model}\n"
                "      datasets:\n"
                "      - name: sums\n"
                "        type: benchmark\n"
                "        jsonl_fpath: sums.jsonl\n"
                "        prepare_script: prepare_sums.py\n"
                "END\n"
                'ng_list_benchmarks "+config_paths=[sums.yaml]"\n'
                'ng_prepare_benchmark "+config_paths=[sums.yaml]"',
                (r"^ sums +sums_agent +sums\.jsonl +to prepare", r"^  sums\.jsonl: 1 rows"),
            ),
            Command(
                "A benchmark from servers to metrics in one command",
                "ng_e2e_collect_rollouts \\\n"
                '    "+config_paths=[sums.yaml]" \\\n'
                "    +split=benchmark \\\n"
                "    +output_jsonl_fpath=results/sums.jsonl",
                (
                    r"^ policy_model .*healthy",
                    r"^requested 1 = ",
                    r"^ pass@1/reward",
                    r"^  results/sums",
                ),
            ),
        ),
    ),
)

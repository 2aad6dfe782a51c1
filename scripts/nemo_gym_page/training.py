"""What trainers, and servers that spread their work with Ray, rely on."""

from nemo_gym_page.command import Command, Session, alone

SESSIONS = (
    *alone(
        Command(
            "The error that a trainer catches",
            "ng_init_resources_server +entrypoint=resources_servers/killed\n"
            "cat > resources_servers/killed/app.py <<'END'\n"
            "import os\n"
            "import signal\n"
            "\n"
            "from nemo_gym.base_resources_server import BaseVerifyRequest, SimpleResourcesServer\n"
            "\n"
            "\n"
            "class Killed(SimpleResourcesServer):\n"
            "    async def verify(self, body: BaseVerifyRequest):\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "END\n"
            "cat > train.py <<'END'\n"
            "import json\n"
            "\n"
            "from palestra.config import load_config\n"
            "from palestra.training import ClientSettings, RolloutRequest, SyncRolloutClient\n"
            "\n"
            "config = load_config(config_paths=[\n"
            '    "resources_servers/killed/configs/killed.yaml",\n'
            '    "responses_api_models/openai_model/configs/openai_model.yaml",\n'
            "])\n"
            'rows = map(json.loads, open("resources_servers/killed/data/example.jsonl"))\n'
            "requests = [RolloutRequest(row=row, task_id=n, rollout_index=0)\n"
            "            for n, row in enumerate(rows)]\n"
            'if __name__ == "__main__":\n'
            "    try:\n"
            "        with SyncRolloutClient(config, ClientSettings(token_ids=False)) as client:\n"
            "            client.submit(requests).gather()\n"
            "    except RuntimeError as error:\n"
            "        print(error)\n"
            "END\n"
            "python train.py | grep -oE '^NeMo Gym returned.*|num_prompts_per_step [*] [^ ]+'",
            (r"^NeMo Gym returned only", r"num_prompts_per_step"),
        ),
    ),
    Session(
        (
            Command(
                "A server that uses Ray",
                "ng_init_resources_server +entrypoint=resources_servers/spread\n"
                "cat > resources_servers/spread/app.py <<'END'\n"
                "import ray\n"
                "\n"
                "from nemo_gym.base_resources_server import (\n"
                "    BaseVerifyRequest,\n"
                "    BaseVerifyResponse,\n"
                "    SimpleResourcesServer,\n"
                ")\n"
                "\n"
                "\n"
                "@ray.remote\n"
                "def grade(text):\n"
                '    return float("4" in text)\n'
                "\n"
                "\n"
                "class Spread(SimpleResourcesServer):\n"
                "    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:\n"
                "        reward = await grade.remote(body.response.output_text)\n"
                "        return BaseVerifyResponse(**body.model_dump(), reward=reward)\n"
                "\n"
                "\n"
                'if __name__ == "__main__":\n'
                "    Spread.run_webserver()\n"
                "END\n"
                "ng_e2e_collect_rollouts \\\n"
                '    "+config_paths=[resources_servers/spread/configs/spread.yaml,'
                'responses_api_models/openai_model/configs/openai_model.yaml]" \\\n'
                "    +agent_name=spread_simple_agent \\\n"
                "    +input_jsonl_fpath=resources_servers/spread/data/example.jsonl \\\n"
                "    +output_jsonl_fpath=results/rollouts.jsonl",
                (r"^requested 5 = ", r"^ mean/reward +1"),
            ),
        ),
    ),
)

"""What the field's pipeline document tells its readers to type and to write."""

from nemo_gym_page.command import Command, alone

SESSIONS = alone(
    Command(
        "Rollouts as jobs, with overrides at the end",
        "ns nemo_gym_rollouts \\\n"
        '    --config_paths="resources_servers/math_with_judge/configs/math_with_judge.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml" \\\n'
        "    --input_file=resources_servers/math_with_judge/data/example.jsonl \\\n"
        "    --output_dir=rollouts \\\n"
        "    --partition=gpu \\\n"
        "    --exclusive \\\n"
        "    +agent_name=math_with_judge_simple_agent \\\n"
        "    +num_samples_in_parallel=64 \\\n"
        "    +responses_create_params.temperature=1.0",
        (r"^warning: --partition, --exclusive", r"5 rollouts in 1 shards", r"rollouts\.jsonl$"),
    ),
    Command(
        "A dry run from Python for a cluster with containers",
        "cat > submit.py <<'END'\n"
        "from nemo_skills.pipeline.cli import nemo_gym_rollouts, wrap_arguments\n"
        "\n"
        "nemo_gym_rollouts(\n"
        '    ctx=wrap_arguments("+agent_name=my_agent +num_samples_in_parallel=64 "\n'
        '                       "+responses_create_params.temperature=1.0"),\n'
        '    cluster={"executor": "slurm", "runtime": "pyxis",\n'
        '             "containers": {"gym": "gym.sqsh", "vllm": "vllm.sqsh"}},\n'
        '    config_paths="my_env/configs/my_env.yaml",\n'
        '    input_file="my_env/data/train.jsonl",\n'
        '    gym_path="/opt/Gym",\n'
        '    output_dir="rollouts",\n'
        '    model="my/model",\n'
        '    server_type="vllm",\n'
        "    server_gpus=8,\n"
        '    policy_api_key="dummy",\n'
        '    partition="gpu",\n'
        "    exclusive=True,\n"
        "    dry_run=True,\n"
        ")\n"
        "END\n"
        "python submit.py\n"
        "grep -hE '(partition|exclusive)' rollouts/cluster/0001/collect.sh",
        (r"/opt/Gym/my_env/\S+\.jsonl.* before any model", r"^#SBATCH --(partition|exclusive)"),
    ),
    Command(
        "A command as a job",
        "cat > command.py <<'END'\n"
        "from nemo_skills.pipeline.cli import run_cmd, wrap_arguments\n"
        "\n"
        "run_cmd(\n"
        '    ctx=wrap_arguments(""),\n'
        '    cluster={"executor": "none"},\n'
        '    command="echo hello from a job",\n'
        '    expname="hello",\n'
        '    partition="cpu",\n'
        "    num_gpus=0,\n"
        ")\n"
        "END\n"
        "python command.py\n"
        "palestra cluster status hello\n"
        "cat hello/logs/command_command_*.log",
        (r"^warning: --partition", r"^hello: done 1$", r"^hello from a job$"),
    ),
)

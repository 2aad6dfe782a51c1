"""Write docs/from-nemo-gym.md: commands of NeMo Gym's documents, run, with what each prints here.

    python scripts/from_nemo_gym.py [FILE]

Each command is typed as it stands, in an empty folder. The model, the hub and the registry that it
meets are fakes on this machine; a test holds the page in step.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = REPOSITORY / "docs" / "from-nemo-gym.md"
SCRIPTS = Path(sys.executable).parent
sys.path.insert(0, str(REPOSITORY / "tests"))

from hub_fakes import WRITER, FakeHub, fake_hub  # noqa: E402  # the fakes lie with the tests
from palestra.config import PACKAGE_ROOT  # noqa: E402
from palestra.testing import ScriptedEndpoint, scripted_endpoint  # noqa: E402
from registry_fakes import TOKEN, FakeGitlab, fake_gitlab  # noqa: E402

ROWS = (PACKAGE_ROOT / "resources_servers/example_multi_step/data/example.jsonl").read_bytes()
HUB_REPO = "nvidia/Nemotron-RL-instruction_following"
TIMEOUT_S = 120
OPENING = """# Coming from NeMo Gym

What NeMo Gym's FAQ and guides tell you to type works here, as it stands there. Below is each
command that was tried after `pip install 'palestra[nemo-gym]'`, in a folder that holds an `env.yaml`
and the file to upload, with what it prints here (the lines that matter).
`scripts/from_nemo_gym.py` runs them and writes this page.

What differs on purpose: nothing is written into the installed package, a failure exits with 1 and
bad input with 2, and both say what to do next.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a document, and which of its printed lines tell that it worked."""

    title: str
    text: str
    shows: tuple[str, ...]
    """Regular expressions, each found in one printed line at least."""
    servers: str = ""
    """What runs in another terminal meanwhile, until Ctrl-C."""
    afterwards: str = ""
    """What is typed when the servers have stopped."""


COMMANDS = (
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
        "The tests of one server",
        "ng_test +entrypoint=responses_api_agents/simple_agent",
        (r"simple_agent +tests", r"README\.md +passed"),
    ),
    Command(
        "A new environment",
        "ng_init_resources_server +entrypoint=resources_servers/my_env\n"
        "grep -E 'type: (train|validation|example)' resources_servers/my_env/configs/my_env.yaml",
        (r"^made ", r"type: (train|validation|example)$"),
    ),
    Command(
        "Example data checked and measured",
        'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml"\n'
        'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
        "    +output_dirpath=data/example_multi_step \\\n"
        "    +mode=example_validation",
        (r"Number of", r"Json-dumped", r"Unique", r"example\.jsonl$"),
    ),
    Command(
        "Training data from the Hugging Face hub",
        'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml"\n'
        'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
        "    +output_dirpath=data/example_multi_step \\\n"
        "    +mode=train_preparation \\\n"
        "    +should_download=true",
        (r"^ all of", r"(train|validation)\.jsonl$"),
    ),
    Command(
        "Training data from GitLab's registry",
        'config_paths="resources_servers/example_multi_step/configs/example_multi_step.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml"\n'
        'ng_prepare_data "+config_paths=[$config_paths]" \\\n'
        "    +output_dirpath=data/example_multi_step \\\n"
        "    +mode=train_preparation \\\n"
        "    +should_download=true \\\n"
        "    +data_source=gitlab",
        (r"^ all of", r"(train|validation)\.jsonl$"),
    ),
    Command(
        "A validation set as a pull request on the hub",
        "resource_config_path="
        '"resources_servers/multineedle/configs/multineedle.yaml"\n'
        "ng_upload_dataset_to_hf \\\n"
        "    +dataset_name=my_dataset \\\n"
        "    +input_jsonl_fpath=validation.jsonl \\\n"
        "    +resource_config_path=${resource_config_path} \\\n"
        "    +hf_organization=acme \\\n"
        "    +split=validation \\\n"
        "    +create_pr=true \\\n"
        "    +revision=my-branch-name \\\n"
        '    +commit_message="Add the validation set" \\\n'
        '    +commit_description="Rows of my environment"',
        (r"^Pull Request created: ", r"^verified: "),
    ),
    Command(
        "Where a server's time goes",
        "ng_collect_rollouts \\\n"
        "    +agent_name=math_with_judge_simple_agent \\\n"
        "    +input_jsonl_fpath=resources_servers/math_with_judge/data/example.jsonl \\\n"
        "    +output_jsonl_fpath=results/rollouts.jsonl",
        (
            r"where its time went is in .*math_with_judge\.log",
            r"^name ncall tsub$",
            r"app\.py:\S+ \S+\.verify 5$",
        ),
        servers='config_paths="resources_servers/math_with_judge/configs/math_with_judge.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml"\n'
        'ng_run "+config_paths=[${config_paths}]" \\\n'
        "    +profiling_enabled=true \\\n"
        "    +profiling_results_dirpath=results/profiling",
        afterwards="head -n 2 results/profiling/math_with_judge.log | awk '{print $1, $2, $3}'",
    ),
    Command(
        "Skills for a coding agent",
        "palestra skills install .claude/skills",
        (r"skills/palestra-",),
    ),
)

FLEET = (
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
        "Servers, rollouts, and what their rewards say",
        "ng_status | tail -n 1\n"
        "ng_collect_rollouts \\\n"
        "    +agent_name=math_with_judge_simple_agent \\\n"
        "    +input_jsonl_fpath=resources_servers/math_with_judge/data/example.jsonl \\\n"
        "    +output_jsonl_fpath=results/rollouts.jsonl",
        (r"^ math_with_judge_simple_agent +5 +5/5", r"^  results/rollouts_"),
        servers='config_paths="resources_servers/math_with_judge/configs/math_with_judge.yaml,\\\n'
        'responses_api_models/openai_model/configs/openai_model.yaml"\n'
        'ng_run "+config_paths=[${config_paths}]"',
        afterwards="ng_reward_profile \\\n"
        "    +materialized_inputs_jsonl_fpath=results/rollouts_materialized_inputs.jsonl \\\n"
        "    +rollouts_jsonl_fpath=results/rollouts.jsonl",
    ),
    Command(
        "One dataset of GitLab's registry",
        "ng_download_dataset_from_gitlab \\\n"
        "    +dataset_name=example_multi_step \\\n"
        "    +version=0.0.1 \\\n"
        "    +artifact_fpath=train.jsonl \\\n"
        "    +output_fpath=data/train.jsonl\n"
        "wc -l < data/train.jsonl",
        (r"^5$",),
    ),
)
"""Servers, rollouts and data, command by command."""

PIPELINE = (
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
"""What the field's pipeline document tells its readers to type and to write."""


def main(document: Path) -> None:
    """Run every command and write the page. Raises when one does not do what it promises."""
    commands = (*COMMANDS, *FLEET, *PIPELINE)
    sections = [_section(command) for command in commands]
    links = [f"| [{c.title}](#{_anchor(c.title)}) | works |" for c in commands]
    table = "\n".join(["| what | here |", "|---|---|", *links])
    document.write_text("\n".join([OPENING, table, *sections]) + "\n", encoding="utf-8")


def _section(command: Command) -> str:
    typed = [f"```bash\n{command.text}\n```"]
    if command.servers:
        typed = [
            f"In one terminal, until Ctrl-C:\n\n```bash\n{command.servers}\n```",
            f"In another one:\n\n```bash\n{command.text}\n```",
            f"And then:\n\n```bash\n{command.afterwards}\n```",
        ]
    printed = "\n".join(_printed(command))
    return "\n\n".join([f"\n## {command.title}", *typed, f"```text\n{printed}\n```", "Works."])


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _printed(command: Command) -> Iterator[str]:
    """The lines that matter, in the order in which they are printed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub, gitlab = stack.enter_context(fake_hub()), stack.enter_context(fake_gitlab())
        model = stack.enter_context(scripted_endpoint(*["\\boxed{4}"] * 5))
        reader = Reader(folder, hub, gitlab, model)
        output = reader.types(command)
        places = {f"{reader.work.resolve()}/": "", hub.endpoint: "https://huggingface.co"}
    lines = [_with_places(line, places) for line in output.splitlines()]
    for pattern in command.shows:
        if not any(re.search(pattern, line) for line in lines):
            raise SystemExit(f"{command.title}: nothing like {pattern!r} in\n{output}")
    return (line.rstrip() for line in lines if any(re.search(p, line) for p in command.shows))


def _with_places(line: str, places: dict[str, str]) -> str:
    for place, name in places.items():
        line = line.replace(place, name)
    # Where a function stands in its file is nothing that a page should follow.
    return re.sub(r"\.py:\d+", ".py:…", line)


class Reader:
    """Someone who types commands in a folder with an env.yaml, and a file to upload."""

    def __init__(
        self, folder: Path, hub: FakeHub, gitlab: FakeGitlab, model: ScriptedEndpoint
    ) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        hub.put(HUB_REPO, {"instruction_following.jsonl": ROWS, "if_validation.jsonl": ROWS})
        gitlab.put("example_multi_step", "0.0.1", {"train.jsonl": ROWS, "validation.jsonl": ROWS})
        (self.work / "validation.jsonl").write_bytes(ROWS)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            head_port = sock.getsockname()[1]
        settings = {
            "policy_base_url": f"{model.url}/v1",
            "policy_api_key": "sk-1234567890",
            "policy_model_name": "scripted",
            "hf_token": WRITER,
            "mlflow_tracking_uri": gitlab.uri,
            "mlflow_tracking_token": TOKEN,
            "head_server": f"{{port: {head_port}}}",
        }
        lines = [f"{key}: {value}\n" for key, value in settings.items()]
        (self.work / "env.yaml").write_text("".join(lines))
        self._environment = {
            **os.environ,
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
            "PALESTRA_RUN_DIR": str(folder),
            "PALESTRA_STATE_DIR": str(folder / "state"),
            "HF_ENDPOINT": hub.endpoint,
            "COLUMNS": "120",
        }

    def types(self, command: Command) -> str:
        """What is printed, the servers' words before those of what is typed afterwards."""
        if not command.servers:
            return self._run(command.text)
        with (self.work / "servers.log").open("w+") as log:
            # A shell of its own would keep Ctrl-C from the command that it runs.
            servers = subprocess.Popen(  # noqa: S603  # as `_run`
                ["/bin/bash", "-c", command.servers.replace("\nng_run", "\nexec ng_run")],
                cwd=self.work,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                self._run(f"ng_status +wait={TIMEOUT_S}")
                self._run(command.text)
            finally:
                servers.send_signal(signal.SIGINT)
                servers.wait(TIMEOUT_S)
            log.seek(0)
            return log.read() + self._run(command.afterwards)

    def _run(self, text: str) -> str:
        done = subprocess.run(  # noqa: S603  # the documents' own commands, above
            ["/bin/bash", "-c", text],
            cwd=self.work,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{text}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT
    main(target)
    print(f"wrote {target}")

"""Examples for the help of each command, and where they are added to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import typer

EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "list": (
        "palestra list",
        "palestra list math",
        "palestra list --kind models --json",
    ),
    "show": (
        "palestra show mcqa",
        "palestra show mcqa --row 2",
        "palestra show runs/mcqa-20260301-120000",
        "palestra show runs/mcqa-20260301-120000 17:3",
    ),
    "runs": ("palestra runs", "palestra runs out --json"),
    "view": (
        "palestra view",
        "palestra view runs/mcqa-20260301-120000 --filter 'reward<1 tools:search'",
        "palestra view runs/mcqa-20260301-120000 17:3 --text",
    ),
    "completion": ("palestra completion bash --install", "palestra completion fish"),
    "run": (
        (
            "palestra run --config resources_servers/mcqa/configs/mcqa.yaml "
            "--config responses_api_models/local_model/configs/local_model.yaml"
        ),
    ),
    "serve-rollouts": (
        "palestra serve-rollouts --config my_run.yaml --port 11500",
        "palestra serve-rollouts --attached --host 0.0.0.0",
    ),
    "status": ("palestra status", "palestra status --wait 60", "palestra status --rollouts --json"),
    "config": ("palestra config --config my_run.yaml",),
    "pip-list": ("palestra pip-list resources_servers/mcqa",),
    "version": ("palestra version", "palestra version --json"),
    "collect": (
        (
            "palestra collect --config my_run.yaml --agent my_agent --input tasks.jsonl "
            "--output out/rollouts.jsonl"
        ),
        (
            "palestra collect --config my_run.yaml --agent my_agent --input tasks.jsonl "
            "--output out/rollouts.jsonl --resume"
        ),
    ),
    "eval": (
        "palestra eval mcqa --model local",
        "palestra eval my_env.py --model vllm:http://127.0.0.1:8000/v1 --repeats 8 --limit 100",
        "palestra eval my_env.py --model vllm:http://127.0.0.1:8000/v1 --repeats 8 --limit 100 --resume",
    ),
    "diagnose": ("palestra diagnose out/rollouts.jsonl", "palestra diagnose run.log"),
    "profile": (
        "palestra profile out/rollouts.jsonl",
        "palestra profile out/rollouts.jsonl --group-by topic --allow-partial",
    ),
    "merge": ("palestra merge out/all.jsonl 'out/shard-*.jsonl'",),
    "reverify": (
        (
            "palestra reverify --rollouts out/rollouts.jsonl --output out/again.jsonl "
            "--environment my_env.py"
        ),
    ),
    "compare": (
        "palestra compare out/before.jsonl out/after.jsonl",
        "palestra compare out/before.jsonl out/after.jsonl --gate --tolerance 0.01",
    ),
    "select": (
        "palestra select out/rollouts.jsonl --band 0.1..0.9",
        "palestra select out/rollouts.jsonl --band 0.1..0.9 --out learn.jsonl",
    ),
    "scores": ("palestra scores small=out/a.jsonl small=out/b.jsonl large=out/c.jsonl",),
    "init": (
        "palestra init my_env",
        "palestra init my_env --template tools",
        "palestra init shelf --template file",
    ),
    "test": ("palestra test my_env", "palestra test my_env --record"),
    "verify-env": ("palestra verify-env mcqa", "palestra verify-env my_env.py --json"),
    "prepare": (
        "palestra prepare --config my_run.yaml --mode example_validation --output-dir data",
    ),
    "render-prompts": (
        "palestra render-prompts --input rows.jsonl --prompt prompt.yaml --output tasks.jsonl",
    ),
    "doctor check": (
        (
            "palestra doctor --config my_run.yaml --agent my_agent --input tasks.jsonl "
            "--output out/rollouts.jsonl"
        ),
        "palestra doctor tools tasks.jsonl",
    ),
    "doctor tools": ("palestra doctor tools tasks.jsonl",),
    "skills install": ("palestra skills install", "palestra skills install .claude/skills"),
    "models fetch": ("palestra models fetch local",),
    "serve-model vllm": ("palestra serve-model vllm Qwen/Qwen3-0.6B --port 8000",),
    "serve-model llama-cpp": ("palestra serve-model llama-cpp model.gguf --port 8000",),
    "sandbox serve": ("palestra sandbox serve --port 6000",),
    "benchmark list": ("palestra benchmark list",),
    "benchmark prepare": ("palestra benchmark prepare gsm8k",),
    "dataset import": ("palestra dataset import questions.csv --env mcqa --output tasks.jsonl",),
    "dataset upload": (
        (
            "palestra dataset upload --input tasks.jsonl --organization my_org --dataset-name my_tasks "
            "--resource-config my_run.yaml"
        ),
    ),
    "dataset download": ("palestra dataset download --repo my_org/my_tasks --output-dir data",),
    "dataset delete": ("palestra dataset delete my_dataset",),
    "dataset migrate": (
        (
            "palestra dataset migrate --input tasks.jsonl --organization my_org --dataset-name my_tasks "
            "--resource-config my_run.yaml"
        ),
    ),
    "cluster rollouts": (
        (
            "palestra cluster rollouts --config-paths my_run.yaml --agent-name my_agent "
            "--input-file tasks.jsonl --output-dir out"
        ),
    ),
    "cluster run-cmd": ("palestra cluster run-cmd --time 1:00:00 python prepare.py",),
    "cluster status": ("palestra cluster status my_run",),
    "cluster logs": ("palestra cluster logs my_run",),
    "cluster retry-failed": ("palestra cluster retry-failed my_run",),
    "cluster cancel": ("palestra cluster cancel my_run",),
    "cluster merge-runs": ("palestra cluster merge-runs seeds-0-3 seeds-4-7 --output-dir all",),
    "cluster merge-shards": ("palestra cluster merge-shards out/plan.json",),
}
"""Command lines, by the words that name the command."""


def add_examples(app: typer.Typer) -> None:
    """Add to the help of each command its examples, after its own last words."""
    for path, info in _commands(app):
        if lines := EXAMPLES.get(path):
            epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
            info.epilog = f"{epilog}\n\n{info.epilog}" if info.epilog else epilog


def _commands(app: typer.Typer, *words: str) -> Iterator[tuple[str, Any]]:
    """Yield each command with the words that name it. The doctor is a command and a group."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        yield " ".join((*words, name)), command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            name = group.name or group.typer_instance.info.name
            yield from _commands(group.typer_instance, *words, str(name))

"""GRPO on a CPU: a tiny model learns sums from the rewards of an environment.

TRL's `GRPOTrainer` trains. Every completion that it trains on is a rollout in Palestra's
`reasoning_gym` environment, sampled by `model_server.py`, which takes the new weights after each
step.

python train.py --seeds 0 1 2 --out grpo_cpu_results
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import torch
from plot import plot_rewards
from policy import make_model, make_tokenizer, save, warm_up
from safetensors.torch import save_file
from transformers import PrinterCallback, TrainerCallback, set_seed
from transformers.utils.logging import disable_progress_bar
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset
from palestra.config import ResolvedConfig, load_config
from palestra.fleet import EMBEDDED, Fleet
from palestra.resources_servers.reasoning_gym.generate import generate_rows
from palestra.training import SyncRolloutClient
from palestra.training.adapters.trl import TrlRollouts, environment_reward

HERE = Path(__file__).parent
FAMILY = "chain_sum"
EASY = {"min_terms": 2, "max_terms": 2, "max_digits": 1}
"""`3 + 8 =`, `4 - 9 =`: 200 questions, of which 600 draws show nearly all."""
GROUP, GROUPS = 8, 32
"""Rollouts that are compared with each other, and how many such groups a step has."""


@dataclass(frozen=True)
class Curve:
    """How one training went."""

    seed: int
    rewards: list[float]
    """The mean reward of each step's rollouts, before the step is learnt from."""
    seconds: float

    def ends(self) -> tuple[float, float]:
        """The mean reward over the first and over the last tenth of the steps."""
        tenth = max(1, len(self.rewards) // 10)
        return sum(self.rewards[:tenth]) / tenth, sum(self.rewards[-tenth:]) / tenth

    def line(self) -> str:
        """For people."""
        start, end = self.ends()
        steps = len(self.rewards)
        return f"seed {self.seed}: {start:.2f} → {end:.2f} in {steps} steps, {self.seconds:.0f} s"


def main() -> int:
    """Train once for each seed, and write down and plot how the reward went."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = tasks()
    curves = []
    for seed in given.seeds:
        curves.append(train(rows, seed=seed, steps=given.steps, warm_up_steps=given.warm_up))
        print(curves[-1].line(), flush=True)
    (given.out / "rewards.json").write_text(json.dumps([asdict(curve) for curve in curves]))
    plot_rewards([curve.rewards for curve in curves], given.out / "rewards.svg")
    print(f"plotted: {given.out / 'rewards.svg'}")
    risen = all(end >= start + given.rise for start, end in (curve.ends() for curve in curves))
    return 0 if risen else 1


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="train a tiny model by GRPO on the CPU")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=600, help="supervised steps before")
    parser.add_argument("--out", type=Path, default=Path("grpo_cpu_results"))
    parser.add_argument(
        "--rise", type=float, default=0.0, help="exit with 1 if a mean reward rises by less"
    )
    return parser.parse_args()


def tasks() -> list[dict[str, Any]]:
    """The environment's rows, each question once."""
    rows = generate_rows([FAMILY], count=600, config_overrides={FAMILY: EASY})
    return list({row["question"]: row for row in rows}.values())


def train(rows: Sequence[Mapping[str, Any]], *, seed: int, steps: int, warm_up_steps: int) -> Curve:
    """One training from the beginning."""
    began = time.monotonic()
    set_seed(seed)
    tokenizer = make_tokenizer([row["question"] for row in rows])
    model = make_model(tokenizer)
    warm_up(model, tokenizer, rows, steps=warm_up_steps, seed=seed)
    with TemporaryDirectory() as scratch:
        save(model, tokenizer, Path(scratch))
        with (
            model_server(Path(scratch), seed) as url,
            SyncRolloutClient(partial(embedded_fleet, url)) as client,
        ):
            push = partial(push_weights, url=url, path=Path(scratch) / "pushed.safetensors")
            rollouts = TrlRollouts(client, rows, push_weights=push)
            trainer = make_trainer(model, tokenizer, rollouts, scratch, seed=seed, steps=steps)
            trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    return Curve(seed, rewards, time.monotonic() - began)


def embedded_fleet(url: str) -> Fleet:
    """The environment, in this process.

    Training and rollouts share a few CPU cores here, and the code of `reasoning_gym` is known not
    to block: embedded servers cost the least. `SyncRolloutClient(config)` is the safer way.
    """
    return Fleet(fleet_config(url), default_placement=EMBEDDED)


def make_trainer(
    model: Any, tokenizer: Any, rollouts: TrlRollouts, folder: str, *, seed: int, steps: int
) -> GRPOTrainer:
    """TRL's trainer, whose completions and rewards are the environment's."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # `rollout_func` may change; see the README
    settings = GRPOConfig(
        output_dir=folder,
        seed=seed,
        max_steps=steps,
        per_device_train_batch_size=GROUP * GROUPS,
        num_generations=GROUP,
        max_completion_length=8,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        beta=0.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=environment_reward,
        args=settings,
        train_dataset=Dataset.from_list(rollouts.dataset()),
        processing_class=tokenizer,
        rollout_func=rollouts,
        callbacks=[Progress()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class Progress(TrainerCallback):
    """A line now and then, in place of one with everything at each step."""

    EVERY = 20

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Called by the trainer after each step."""
        del args, control
        if "reward" in logs and state.global_step % self.EVERY == 0:
            print(f"  step {state.global_step}: mean reward {logs['reward']:.2f}", flush=True)


def fleet_config(url: str) -> ResolvedConfig:
    """The environment, its agent, and the model server in front of `url`."""
    model = "++policy_model.responses_api_models.vllm_model"
    return load_config(
        config_paths=[
            "resources_servers/reasoning_gym/configs/reasoning_gym.yaml",
            "responses_api_models/vllm_model/configs/vllm_model.yaml",
        ],
        overrides=[
            f"++policy_base_url={url}/v1",
            "++policy_api_key=none",
            "++policy_model_name=tiny",
            f"{model}.return_token_id_information=true",
            f"{model}.uses_reasoning_parser=false",
        ],
        use_env_yaml=False,
    )


@contextmanager
def model_server(folder: Path, seed: int) -> Iterator[str]:
    """`model_server.py` in a process of its own, which ends with this one. Yields its URL."""
    line = [sys.executable, str(HERE / "model_server.py"), str(folder), "--seed", str(seed)]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            url = serving.stdout.readline().strip() if serving.stdout else ""
            if not url:
                raise SystemExit("the model server did not start: see its last lines above")
            yield url
        finally:
            serving.kill()


def push_weights(trainer: GRPOTrainer, version: int, *, url: str, path: Path) -> None:
    """Have the model server take the trainer's weights. Returns when it has."""
    weights = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    save_file({name: value.contiguous() for name, value in weights.items()}, path)
    body = json.dumps({"path": str(path), "version": version}).encode()
    request = Request(  # noqa: S310  # our own server
        f"{url}/update_weights", body, {"content-type": "application/json"}
    )
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        answer.read()


if __name__ == "__main__":
    torch.set_num_threads(1)  # matrices so small are not worth a second thread
    disable_progress_bar()
    sys.exit(main())

"""What the object of one rollout may use: a judge, a sandbox, random numbers."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, final

from palestra.errors import JudgeFailure, KnownCause
from palestra.sandbox import Sandbox
from palestra.schema import EXPECTED_ANSWER, JsonObject
from palestra.server.environments.task import ReadOnlyDict
from palestra.server.judging.judge import Hearing, JudgeConfig, Ruling
from palestra.server.judging.questions import JudgeQuestion, read_choice
from palestra.transport import current_call

REFERENCE, CANDIDATE = EXPECTED_ANSWER, "generated_answer"

_CHOOSING: Final = """\
You answer one question by choosing one label from a list. Choose by what the question asks, not by \
the order of the labels.

Give your reason in one or two sentences. Then end with one line that holds nothing but the label."""
_LABELS: Final = "\n\nThe labels:\n{labels}\n\nYour reason, then one label on a line of its own."


@final
class EnvironmentJudge:
    """Asks the judge of an environment. Its model is that of `--judge`, else the policy.

    Quoted texts are fenced, so that they cannot give orders. Each question is asked in two orders.
    The row keeps questions and replies, and `reverify` replays them. Without a verdict in the
    judge's last line the rollout fails as `judge_error`: it gets no reward.
    """

    def __init__(self, config: JudgeConfig, hearing: Hearing) -> None:
        self._config = config
        self._hearing = hearing

    async def same(self, a: str, b: str, *, question: str = "") -> bool:
        """Return whether `a` (the expected answer) and `b` say the same, in both orders.

        `question`: the question that both answer, if there is one.
        """
        shown_question = question or "(not given)"
        orders = ((a, b), (b, a))
        first, swapped = (
            self._config.question(
                {
                    "question": shown_question,
                    REFERENCE: str(first_answer),
                    CANDIDATE: str(second_answer),
                },
                (REFERENCE, CANDIDATE),
            )
            for first_answer, second_answer in orders
        )
        return await self._hearing.compare(first, swapped) is Ruling.EQUAL

    async def choose(self, question: str, labels: Sequence[str], **passages: str) -> str | None:
        """Return the label that the judge chooses; None when it chooses another one as the labels
        are listed in the other order.

        `passages`: texts for the placeholders of the question, such as `{answer}`. Each is fenced.
        Without passages the whole question is fenced.
        """
        if isinstance(labels, str):
            raise TypeError(f'labels is a list of texts, such as ["yes", "no"], not {labels!r}')
        names = [str(label) for label in labels]
        if len(set(names)) < 2 or not all(name.strip() and "\n" not in name for name in names):
            raise ValueError(f"labels must be at least two different lines, not {labels!r}")
        first = await self._chosen(question, names, passages)
        if not self._config.check_twice_swap:
            return first
        second = await self._chosen(question, names[::-1], passages)
        return first if first == second else None

    async def _chosen(self, question: str, labels: list[str], passages: dict[str, str]) -> str:
        text = question if passages else "The question:\n\n{question}"
        quoted = {name: str(passage) for name, passage in passages.items()}
        listed = "\n".join(f"- {label}" for label in labels)
        judge_question = JudgeQuestion(
            self._config.judge_system_message or _CHOOSING,
            text + _LABELS.replace("{labels}", listed),
            quoted or {"question": question},
        )
        return await self._hearing.ask(judge_question, labels=labels, read_label=read_choice)


def _no_judge() -> EnvironmentJudge:
    raise JudgeFailure(
        "there is no judge to ask: this object was made by hand",
        hint="run it with `palestra eval`, or hand a stand-in to the function under test",
        cause=KnownCause.NO_JUDGE,
    )


@dataclass(slots=False)
class RolloutServices:
    """The services of one rollout. Those of an object that was made by hand have no judge."""

    task: JsonObject = field(default_factory=ReadOnlyDict)
    make_judge: Callable[[], EnvironmentJudge] = _no_judge
    make_sandbox: Callable[[], Sandbox] = Sandbox
    stored_seed: str = ""
    """The seed of an earlier verification of this rollout."""
    used_seed: str = ""
    """The seed of `rng`; empty while nobody has used it."""

    @cached_property
    def judge(self) -> EnvironmentJudge:
        """The judge."""
        return self.make_judge()

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox of the server."""
        return self.make_sandbox()

    @cached_property
    def rng(self) -> random.Random:
        """Random numbers, seeded by run, task and rollout."""
        self.used_seed = self.stored_seed or rollout_seed()
        return random.Random(self.used_seed)


def rollout_seed() -> str:
    """Return the seed of the rollout of the current call: of its run, task and index. Another
    attempt gets the same seed.
    """
    row = current_call().row
    identity: tuple[Any, ...] = () if row is None else (row.run, row.task, row.rollout)
    return hashlib.blake2b(repr(identity).encode(), digest_size=8).hexdigest()

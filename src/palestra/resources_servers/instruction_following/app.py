"""`InstructionFollowingServer`: does an answer follow each instruction of its row?

The instructions are defined in `keywords.py`, `lengths.py`, `formats.py`, `wording.py` and
`registry.py`. `registry.py` also has their ids.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from palestra.errors import require_extra
from palestra.metrics import compute_pass_majority_metrics
from palestra.resources_servers.instruction_following.instruction import Answer, Instruction
from palestra.resources_servers.instruction_following.registry import LanguageDetector, bind
from palestra.resources_servers.key_metrics import key_metrics
from palestra.schema import JsonDict, JsonObject, VerifyRequest, VerifyResponse
from palestra.server import Aside, ResourcesServer, ResourcesServerConfig

Grading = Literal["binary", "fraction"]


class InstructionFollowingVerifyRequest(VerifyRequest):  # type: ignore[no-redef]  # `kwargs`
    """A row: its instructions and the parameters of each."""

    instruction_id_list: list[str] = Field(min_length=1)
    kwargs: list[JsonDict | None]
    """The parameters: one entry per instruction, in the same order; null or empty for none."""

    grading_mode: Grading = "binary"
    """`binary`: reward 1.0 for an answer that follows all instructions. `fraction`: the share
    followed."""

    _instructions: list[Instruction] = PrivateAttr(default_factory=list)

    @model_validator(mode="after")
    def _bind_instructions(self) -> Self:
        ids, kwargs = self.instruction_id_list, self.kwargs
        if len(ids) != len(kwargs):
            raise ValueError(f"{len(ids)} instructions have {len(kwargs)} entries in kwargs")
        self._instructions = [bind(*both) for both in zip(ids, kwargs, strict=True)]
        return self

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions that the answer must follow."""
        return self._instructions


class InstructionFollowingServer(ResourcesServer):
    """A resources server that checks the text of the last message against the row's instructions."""

    config: ResourcesServerConfig

    async def start(self) -> None:
        """Raise ConfigError when the language detector is not installed."""
        require_extra("langdetect", extra="instruction-following", what=self.name)

    async def verify(self, body: InstructionFollowingVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when every instruction is followed, or the share of them
        (`grading_mode`).
        """
        answer = Answer(body.response.final_text, self._detector.detect)
        # Long answers take a while, and so does the first look at a language.
        followed = await self._aside.run(partial(_followed, body.instructions, answer))
        all_followed = all(followed)
        fraction = sum(followed) / len(followed)
        return self.reply(
            body,
            float(all_followed) if body.grading_mode == "binary" else fraction,
            follow_all_instructions=all_followed,
            follow_instruction_list=followed,
        )

    def compute_metrics(self, tasks: list[list[JsonDict]]) -> JsonDict:
        """Compute pass@k, its averages, and the percentages of answers and instructions followed."""
        return {**compute_pass_majority_metrics(tasks), **_accuracies(tasks)}

    def get_key_metrics(self, agent_metrics: JsonDict) -> JsonDict:
        """Return the average and best over all attempts, and IFEval's two accuracies."""
        of_k = key_metrics(agent_metrics)
        ours = ("prompt_accuracy", "instruction_accuracy")
        return {**of_k, **{name: agent_metrics[name] for name in ours if name in agent_metrics}}

    @cached_property
    def _detector(self) -> LanguageDetector:
        return LanguageDetector()

    @cached_property
    def _aside(self) -> Aside:
        return Aside()


def _followed(instructions: Iterable[Instruction], answer: Answer) -> list[bool]:
    """Return for each instruction whether the answer follows it. An empty answer follows none."""
    says_something = bool(answer.text.strip())
    return [says_something and instruction.follows(answer) for instruction in instructions]


def _accuracies(tasks: Iterable[Iterable[JsonObject]]) -> dict[str, float]:
    """Compute percentages: answers that follow all instructions, instructions followed, and the
    latter for each instruction id.
    """
    prompts: list[bool] = []
    by_id: dict[str, list[bool]] = defaultdict(list)
    for result in (result for task in tasks for result in task):
        followed = result.get("follow_instruction_list") or []
        if followed:
            prompts.append(all(followed))
        for name, value in zip(result.get("instruction_id_list") or [], followed, strict=False):
            by_id[name].append(value)
    every = [value for values in by_id.values() for value in values]
    if not every:
        return {}
    return {
        "prompt_accuracy": _percent(prompts),
        "instruction_accuracy": _percent(every),
        **{f"instruction_accuracy/{name}": _percent(by_id[name]) for name in sorted(by_id)},
    }


def _percent(values: list[bool]) -> float:
    return 100 * sum(values) / len(values)

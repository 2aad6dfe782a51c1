"""Ask the row's follow-up questions one after the other, and score the last answer.

The smallest environment that takes turns: what a step needs is in `episode.state`, and a stored
rollout can be scored again because the dialogue itself says everything.
"""

import re
from typing import ClassVar

from pydantic import Field

from palestra.schema import (
    JsonObject,
    Message,
    OutputMessage,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    response_of,
)
from palestra.server import (
    Episode,
    Opening,
    ReverifyMode,
    RewardRules,
    Session,
    Step,
    TurnsServer,
)


class Dialogue(WireModel):
    """What a row must say for its dialogue to be held."""

    follow_ups: list[str] = Field(default_factory=list)
    """Questions that follow the first one, which is the task's input."""

    expected_answer: str = Field(min_length=1)
    """What the last answer must name."""


class DialogueServer(TurnsServer):
    """Takes turns until its questions are used up."""

    repeatable: ClassVar[bool | None] = True

    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    reward_rules: ClassVar[RewardRules] = RewardRules(
        unsure={
            "mentioned": "the answer is looked for as a word of the text, whatever it says of it",
            "hedged": "the answer is looked for as a word of the text, whatever it says of it",
        }
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        """A word for each question, and the right one for the last."""
        turns = ["Let me see."] * len(row.get("follow_ups", ()))
        return response_of(*turns, f"It is {row['expected_answer']}.")

    async def reset(self, body: Dialogue, session: Session) -> Opening:
        """The first question is in the task's input already."""
        self.begin(session, body)
        return Opening()

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """The next question, or the score."""
        row: Dialogue = episode.state
        if episode.steps < len(row.follow_ups):
            return Step(observation=row.follow_ups[episode.steps])
        return Step(reward=float(names(turn.final_text, row.expected_answer)), terminated=True)

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        """From the dialogue in the response: it is over when every question was put and answered."""
        row = Dialogue.model_validate(body.model_extra or {})
        output = body.response.output
        asked = sum(isinstance(i, Message) and not isinstance(i, OutputMessage) for i in output)
        over = asked == len(row.follow_ups) and body.response.incomplete_details is None
        right = over and names(body.response.final_text, row.expected_answer)
        return self.reply(body, float(right), terminated=over, truncated=False, info={})


def names(text: str, expected: str) -> bool:
    """Whether `text` has `expected` as a word of its own, in whatever case: 20 is not in 120."""
    pattern = rf"(?<!\w){re.escape(expected)}(?!\w|[.,]\d)"
    return re.search(pattern, text, re.IGNORECASE) is not None

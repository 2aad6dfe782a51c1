"""Ask the row's follow-up questions one after another, and score the last answer.

The smallest multi-turn environment: the state of a dialogue is in `episode.state`. A stored rollout
can be verified again, because the dialogue contains everything the score needs.
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
    """The fields that a row needs for its dialogue."""

    follow_ups: list[str] = Field(default_factory=list)
    """The questions after the first one. The first is in the task's input."""

    expected_answer: str = Field(min_length=1)
    """The text that the last answer must contain."""


class DialogueServer(TurnsServer):
    """A resources server that takes turns until it has asked every follow-up question."""

    repeatable: ClassVar[bool | None] = True

    reverify_mode: ClassVar[ReverifyMode] = "stateless"

    reward_rules: ClassVar[RewardRules] = RewardRules(
        unsure={
            "mentioned": "the answer is looked for as a word of the text, whatever it says of it",
            "hedged": "the answer is looked for as a word of the text, whatever it says of it",
        }
    )

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return a response with a short text for each question and the right answer to the last."""
        turns = ["Let me see."] * len(row.get("follow_ups", ()))
        return response_of(*turns, f"It is {row['expected_answer']}.")

    async def reset(self, body: Dialogue, session: Session) -> Opening:
        """Start the episode. The task's input already contains the first question."""
        self.begin(session, body)
        return Opening()

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """Return the next question, or the reward after the last answer."""
        row: Dialogue = episode.state
        if episode.steps < len(row.follow_ups):
            return Step(observation=row.follow_ups[episode.steps])
        return Step(reward=float(names(turn.final_text, row.expected_answer)), terminated=True)

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        """Compute the reward again from the dialogue in the response.

        The episode is complete when every question was asked and answered.
        """
        row = Dialogue.model_validate(body.model_extra or {})
        output = body.response.output
        questions = sum(isinstance(i, Message) and not isinstance(i, OutputMessage) for i in output)
        is_over = questions == len(row.follow_ups) and body.response.incomplete_details is None
        right = is_over and names(body.response.final_text, row.expected_answer)
        return self.reply(body, float(right), terminated=is_over, truncated=False, info={})


def names(text: str, expected: str) -> bool:
    """Whether `text` contains `expected` as a whole word, ignoring case: 20 is not in 120."""
    pattern = rf"(?<!\w){re.escape(expected)}(?!\w|[.,]\d)"
    return re.search(pattern, text, re.IGNORECASE) is not None

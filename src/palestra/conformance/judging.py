"""A scripted judge: it gives the answer that a test sets, and stores its prompts."""

import re
from dataclasses import dataclass, field

from pydantic import PrivateAttr

from palestra.schema import Response, ResponseCreateParams, response_of
from palestra.server import ModelServer, ModelServerConfig, Session
from palestra.transport import ServerClient

WORDS = (
    ("[[A=B]]", "[[A!=B]]"),
    ("[[Yes]]", "[[No]]"),
    ("[[YES]]", "[[NO]]"),
    ("yes", "no"),
    ("Yes", "No"),
    ("YES", "NO"),
    ("CORRECT", "INCORRECT"),
    ("correct", "incorrect"),
    ("Verdict: correct", "Verdict: incorrect"),
    ("true", "false"),
    ('{"verdict": "correct"}', '{"verdict": "incorrect"}'),
    ("A", "B"),
    ("1", "0"),
)
"""Pairs of words with which judges say that an answer is right, and that it is wrong."""


@dataclass(slots=True)
class Script:
    """The answer that the judge gives to every prompt, and the prompts it has got."""

    says: str = "[[A!=B]]"
    asked: list[str] = field(default_factory=list)
    """The prompts since `asked` was last emptied, each as one text."""


class ScriptedJudge(ModelServer):
    """A judge that answers with its script."""

    _script: Script = PrivateAttr(default_factory=Script)

    @classmethod
    def of(cls, name: str, script: Script, client: ServerClient) -> "ScriptedJudge":
        """Make a judge with the name of an instance."""
        judge = cls(config=ModelServerConfig(name=name), server_client=client)
        judge._script = script
        return judge

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return the script's answer."""
        del session
        script = self._script
        prompt = _text_of(body)
        script.asked.append(prompt)
        return response_of(among_labels(script.says, prompt), model="scripted-judge")


_LABELS = re.compile(r"^The labels:\n((?:- .*\n)+)", re.MULTILINE)


def among_labels(says: str, prompt: str) -> str:
    """Return what the judge says, with its last line as one of the labels that the prompt lists.

    A prompt of `self.judge.choose` lists them. Where no known pair of words is among them, the
    reply stays as it is.
    """
    listed = _LABELS.search(prompt)
    above, line_break, verdict = says.rpartition("\n")
    pair = next((words for words in WORDS if verdict in words), None)
    if listed is None or pair is None:
        return says
    labels = [line.removeprefix("- ") for line in listed[1].splitlines()]
    known_words = next((words for words in WORDS if words[0] in labels), None)
    if verdict in labels or known_words is None:
        return says
    others = [label for label in sorted(labels) if label != known_words[0]]
    return f"{above}{line_break}{known_words[0] if verdict == pair[0] else others[0]}"


def _text_of(params: ResponseCreateParams) -> str:
    items = params.input if isinstance(params.input, list) else []
    texts = [str(getattr(item, "text", "")) for item in items]
    if isinstance(params.input, str):
        texts.append(params.input)
    return "\n".join([params.instructions or "", *texts])


def can_close(marker: str, hostile: str, imitation: str) -> bool:
    """Whether a candidate that contains `imitation` seems to the judge to end there.

    `marker`: the end of a candidate. `imitation`: the text that followed `marker` in the judge's
    prompt about another candidate. `hostile`: the prompt about a candidate that ends with `marker`,
    `imitation`, an order and `marker` again. The attack fails when other text really follows now (a
    fence that depends on the candidate), or when the imitation was escaped.
    """
    after_first = hostile.partition(marker)[2]
    if not after_first.startswith(imitation):
        return False
    after_last = hostile.rpartition(marker)[2]
    return after_last.startswith(imitation)

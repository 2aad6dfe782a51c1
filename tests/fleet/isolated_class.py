"""An environment with plain methods, which do what the row says."""

import os
from typing import Any

from isolated_functions import KINDS

from palestra import ResourcesServer, Session, ToolError, tool
from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse


class Row(SeedSessionRequest):
    seed: str = "fine"


class Answer(VerifyRequest):
    verify_as: str = "fine"
    judge: str = ""
    times: int = 0


class Plain(ResourcesServer):
    def seed_session(self, body: Row, session: Session) -> SeedSessionResponse:
        KINDS[body.seed]()
        session.state["process"] = os.getpid()
        return SeedSessionResponse()

    @tool
    def act(self, kind: str, session: Session) -> dict[str, Any]:
        """Do something.

        kind: what to do
        """
        if kind == "refuse":
            raise ToolError("not now")
        KINDS[kind]()
        return {"same process": session.state["process"] == os.getpid()}

    @tool
    async def look(self, session: Session) -> bool:
        """See whether the state is there."""
        return "process" in session.state

    async def start(self) -> None:
        self.__dict__["started_in"] = os.getpid()

    def verify(self, body: Answer, session: Session) -> VerifyResponse:
        KINDS[body.verify_as]()
        same = session.state["process"] == os.getpid() == self.__dict__["started_in"]
        text = body.response.final_text * body.times
        return self.reply(body, 1.0, same_process=same, process=os.getpid(), text=text)

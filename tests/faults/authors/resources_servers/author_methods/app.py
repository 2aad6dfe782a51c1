"""A folder: plain methods that do what the row says."""

from author_kinds import KINDS

from palestra import ResourcesServer, Session, tool
from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse


class Row(SeedSessionRequest):
    place: str
    kind: str


class Answer(VerifyRequest):
    place: str
    kind: str


class AuthorMethods(ResourcesServer):
    def seed_session(self, body: Row, session: Session) -> SeedSessionResponse:
        session.state["row"] = body
        if body.place == "seed":
            KINDS[body.kind]()
        return SeedSessionResponse()

    @tool
    def act(self, session: Session) -> str:
        """Do it."""
        row = session.state["row"]
        if row.place == "tool":
            KINDS[row.kind]()
        return "done"

    def verify(self, body: Answer, session: Session) -> VerifyResponse:
        if body.place == "verify":
            KINDS[body.kind]()
        return self.reply(body, float(session.state["row"].kind == body.kind))

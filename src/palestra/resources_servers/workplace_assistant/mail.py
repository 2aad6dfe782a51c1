"""The tools for the directory and the mail."""

from collections.abc import Mapping

from palestra.resources_servers.workplace_assistant.desk import (
    NOW,
    PAGE_SIZE,
    Desk,
    Output,
    contains,
    holds_words,
    output,
    page_of,
    within,
)
from palestra.server import Session, tool


class MailTools(Desk):
    """Tools that find people, and search, send, answer, forward and delete mail."""

    @tool
    async def company_directory_find_email_address(self, name: str = "") -> Output:
        """Finds all email addresses containing the given name (case-insensitive search).

        name: Name or partial name to search for in email addresses
        """
        matches = [address for address in self.office().addresses if contains(name, address)]
        return output(matches if name and matches else "No email address found.")

    @tool
    async def email_get_email_information_by_id(
        self, session: Session, email_id: str, field: str
    ) -> Output:
        """Retrieves specific details of an email by its ID.

        email_id: Unique ID of the email
        field: Specific field to return: 'email_id', 'inbox/outbox', 'sender/recipient', 'subject', 'sent_datetime', 'body'
        """
        return self.looked_up(session, "emails", email_id, field)

    @tool
    async def email_search_emails(
        self,
        session: Session,
        query: str = "",
        date_min: str | None = None,
        date_max: str | None = None,
        page: int = 1,
        page_size: int = PAGE_SIZE,
    ) -> Output:
        """Searches for emails that have all words of the query, the newest first.

        query: Search query, matching terms in subject, body, or sender/recipient
        date_min: Lower date limit for the email's sent date (inclusive). Format: YYYY-MM-DD
        date_max: Upper date limit for the email's sent date (inclusive). Format: YYYY-MM-DD
        page: Page number of results to return
        page_size: Number of emails per page
        """
        fields = ("subject", "body", "sender/recipient")
        matches = [
            mail
            for mail in self.at(session).all("emails")
            if holds_words(query, mail, fields)
            and within(date_min, mail["sent_datetime"], date_max)
        ]
        matches.sort(key=lambda mail: mail["sent_datetime"], reverse=True)
        return page_of(matches, "emails", page, page_size)

    @tool
    async def email_send_email(
        self, session: Session, recipient: str, subject: str, body: str
    ) -> Output:
        """Sends an email to the specified recipient.

        recipient: Email address of the recipient
        subject: Subject line of the email
        body: Body content of the email
        """
        if "@" not in recipient:
            return output(f"{recipient!r} is not an email address.")
        return self._send(
            session, {"sender/recipient": recipient, "subject": subject, "body": body}
        )

    @tool
    async def email_delete_email(self, session: Session, email_id: str) -> Output:
        """Deletes an email by its ID.

        email_id: Unique ID of the email to be deleted
        """
        return self.deleted(session, "emails", email_id)

    @tool
    async def email_forward_email(self, session: Session, email_id: str, recipient: str) -> Output:
        """Forwards an email to the specified recipient.

        email_id: Unique ID of the email to be forwarded
        recipient: Email address of the recipient
        """
        mail = self._record(session, "emails", email_id)
        if mail is None:
            return output(f"No email with the ID {email_id}.")
        if "@" not in recipient:
            return output(f"{recipient!r} is not an email address.")
        subject = f"FW: {mail.get('subject', email_id)}"
        body = mail.get("body", "")
        return self._send(
            session, {"sender/recipient": recipient, "subject": subject, "body": body}
        )

    @tool
    async def email_reply_email(self, session: Session, email_id: str, body: str) -> Output:
        """Replies to an email by its ID.

        email_id: Unique ID of the email to be replied
        body: Body content of the email
        """
        mail = self._record(session, "emails", email_id)
        if mail is None:
            return output(f"No email with the ID {email_id}.")
        to = mail.get("sender/recipient", email_id)
        subject = mail.get("subject", email_id)
        return self._send(session, {"sender/recipient": to, "subject": subject, "body": body})

    def _send(self, session: Session, mail: Mapping[str, str]) -> Output:
        self.added(session, "emails", {"inbox/outbox": "outbox", "sent_datetime": NOW, **mail})
        return output("The email was sent.")

"""Write `data/office.json`: the records of an invented office, the same on every run."""

import random
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from palestra.resources_servers.workplace_assistant.crm import PRODUCTS, STATUSES
from palestra.resources_servers.workplace_assistant.projects import BOARDS, LISTS
from palestra.schema import JsonDict

NOW = datetime(2023, 11, 30, 23, 59)  # noqa: DTZ001  # office time
PEOPLE = (
    "amara.osei", "bruno.keller", "chidi.okafor", "dalia.haddad", "elif.demir", "farid.rahimi",
    "greta.lindqvist", "hana.sato", "ivo.petrov", "jonas.weber", "kaia.nielsen", "luca.moretti",
)  # fmt: skip
TOPICS = (
    "Quarterly report", "Server move", "Newsletter", "Price list", "Onboarding", "Trade fair",
    "Security review", "Translation", "Data cleaning", "Office party",
)  # fmt: skip
STEPS = ("Plan", "Draft", "Review", "Finish", "Present")
CUSTOMERS = ("Adler", "Brandt", "Castro", "Duarte", "Eriksen", "Fontaine", "Gupta", "Horvat")
FIRST_NAMES = ("Ada", "Ben", "Cleo", "Dev", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jan")
SOURCES = ("direct", "referral", "search engine", "social media")


def office(seed: int = 7) -> JsonDict:
    """Return all records of the office."""
    rng = random.Random(seed)
    addresses = [f"{name}@example.com" for name in PEOPLE]
    return {
        "addresses": addresses,
        "emails": [_email(rng, number, addresses) for number in range(1, 121)],
        "events": [_event(rng, number, addresses) for number in range(1, 101)],
        "visits": [_visit(rng, number) for number in range(1, 201)],
        "tasks": [_task(rng, number, addresses) for number in range(1, 101)],
        "customers": [_customer(rng, number, addresses) for number in range(1, 81)],
    }


def _subject(rng: random.Random) -> str:
    return f"{rng.choice(STEPS)} the {rng.choice(TOPICS).lower()}"


def _day(rng: random.Random, first: int, last: int) -> datetime:
    """Return midnight of a random day, `first` to `last` days from today."""
    return NOW.replace(hour=0, minute=0) + timedelta(days=rng.randint(first, last))


def _email(rng: random.Random, number: int, addresses: list[str]) -> dict[str, str]:
    sent_at = _day(rng, -60, -1) + timedelta(minutes=rng.randint(8 * 60, 18 * 60))
    subject = _subject(rng)
    return {
        "email_id": f"{number:08d}",
        "inbox/outbox": rng.choice(("inbox", "inbox", "outbox")),
        "sender/recipient": rng.choice(addresses),
        "subject": subject,
        "sent_datetime": f"{sent_at:%Y-%m-%d %H:%M:%S}",
        "body": f"Hello, this is about: {subject}. Could you have a look by {_day(rng, 1, 20):%A}?",
    }


def _event(rng: random.Random, number: int, addresses: list[str]) -> dict[str, str]:
    start = _day(rng, -20, 30) + timedelta(minutes=30 * rng.randint(18, 34))
    return {
        "event_id": f"{number:08d}",
        "event_name": _subject(rng),
        "participant_email": rng.choice(addresses),
        "event_start": f"{start:%Y-%m-%d %H:%M:%S}",
        "duration": str(rng.choice((30, 45, 60, 90))),
    }


def _visit(rng: random.Random, number: int) -> dict[str, str]:
    return {
        "visitor_id": f"{number:08d}",
        "date_of_visit": f"{_day(rng, -60, 0):%Y-%m-%d}",
        "page_views": str(rng.randint(1, 20)),
        "session_duration_seconds": str(rng.randint(5, 900)),
        "traffic_source": rng.choice(SOURCES),
        "user_engaged": str(rng.random() < 0.4),
    }


def _task(rng: random.Random, number: int, addresses: list[str]) -> dict[str, str]:
    return {
        "task_id": f"{number:08d}",
        "task_name": _subject(rng),
        "assigned_to_email": rng.choice(addresses),
        "list_name": rng.choice(LISTS),
        "due_date": f"{_day(rng, -20, 30):%Y-%m-%d}",
        "board": rng.choice(BOARDS),
    }


def _customer(rng: random.Random, number: int, addresses: list[str]) -> dict[str, str]:
    first, last = rng.choice(FIRST_NAMES), rng.choice(CUSTOMERS)
    return {
        "customer_id": f"{number:08d}",
        "customer_name": f"{first} {last}",
        "assigned_to_email": rng.choice(addresses),
        "customer_email": f"{first}.{last}{number}@example.org".lower(),
        "customer_phone": f"555-{rng.randint(0, 9999):04d}",
        "last_contact_date": f"{_day(rng, -90, 0):%Y-%m-%d}",
        "product_interest": rng.choice(PRODUCTS),
        "status": rng.choice(STATUSES),
        "follow_up_by": f"{_day(rng, 1, 40):%Y-%m-%d}",
        "notes": "",
    }


if __name__ == "__main__":
    written = orjson.dumps(office(), option=orjson.OPT_INDENT_2)
    Path(__file__).with_name("data").joinpath("office.json").write_bytes(written + b"\n")

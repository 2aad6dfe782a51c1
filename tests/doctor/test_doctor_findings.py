"""What a finding says, and how it is shown."""

import pytest

from palestra.doctor.findings import (
    Finding,
    Quote,
    Severity,
    has_errors,
    in_order,
    quote,
    text_of,
)
from palestra.errors import Layer, RowIdentity


def finding(
    layer: Layer = Layer.INFRA,
    cause: str = "infra.disk-full",
    severity: Severity = Severity.ERROR,
) -> Finding:
    return Finding(
        layer=layer,
        cause=cause,
        symptom="3 MiB are free and the run writes 70 MiB",
        likely_cause="the disk is nearly full",
        next_action="choose another --output",
        evidence=(Quote("rows.jsonl", "sk-secret", line=17, pointer="/verifier"),),
        row=RowIdentity(task=3, rollout=0),
        severity=severity,
    )


def test_a_finding_reads_as_symptom_row_evidence_cause_and_action() -> None:
    assert text_of(finding()).plain.splitlines() == [
        "error infra (infra.disk-full): 3 MiB are free and the run writes 70 MiB",
        "  row   task 3, rollout 0, attempt 1",
        "  seen  rows.jsonl:17 /verifier: sk-secret",
        "  why   the disk is nearly full",
        "  do    choose another --output",
    ]


def test_a_finding_as_json_has_every_part_by_name() -> None:
    held = finding().as_json()

    assert held["layer"] == "infra"
    assert held["severity"] == "error"
    assert held["row"] == {"task": 3, "rollout": 0, "attempt": 1}
    assert held["evidence"] == [
        {"source": "rows.jsonl", "line": 17, "pointer": "/verifier", "text": "sk-secret"}
    ]


def test_a_secret_is_masked_wherever_a_finding_holds_it() -> None:
    masked = finding().masked(lambda text: text.replace("sk-secret", "****"))

    assert "sk-secret" not in text_of(masked).plain


def test_a_cause_of_another_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"should be cache\.some-words"):
        finding(layer=Layer.CACHE)


def test_errors_come_first_and_lower_layers_before_higher_ones() -> None:
    warning = finding(severity=Severity.WARNING)
    cache = finding(Layer.CACHE, "cache.stale-inputs")
    infra = finding()

    assert in_order([warning, cache, infra]) == (infra, cache, warning)


def test_only_errors_make_a_command_fail() -> None:
    assert has_errors([finding()])
    assert not has_errors([finding(severity=Severity.WARNING)])


def test_a_long_line_is_quoted_with_its_middle_left_out() -> None:
    found = quote("log.txt", "a" * 10_000, line=3)

    assert len(found.text) < 510
    assert found.where == "log.txt:3"


def test_texts_of_others_are_made_visible_before_they_are_shown() -> None:
    shown = text_of(finding(), visible=lambda text: text.replace("sk-", "[sk]"))

    assert "[sk]secret" in shown.plain

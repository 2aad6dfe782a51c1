"""What a finding says, and how it is shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from palestra.causes import Severity
from palestra.config.yaml_text import read_yaml
from palestra.doctor import CheckRun, Looked, Report, finding_of
from palestra.doctor.findings import (
    Finding,
    Quote,
    five_parts,
    has_errors,
    in_order,
    quote,
    row_text,
    text_of,
)
from palestra.doctor.forecast import Forecast
from palestra.doctor.quoting import quote_named, quote_places
from palestra.errors import (
    CallEvidence,
    ConfigError,
    Hop,
    InfraError,
    KnownCause,
    Layer,
    ModelError,
    RowIdentity,
    add_hop,
)
from palestra.rollouts import StaleRun


def finding(
    layer: Layer = Layer.INFRA,
    cause: str = "infra.disk-full",
    severity: Severity = Severity.ERROR,
) -> Finding:
    return Finding(
        layer=layer,
        cause=cause,
        symptom="3 MiB are free",
        likely_cause="the disk is nearly full",
        next_action="choose another --output",
        evidence=(Quote("rows.jsonl", "sk-secret", line=17, pointer="/verifier"),),
        row=RowIdentity(task=3, rollout=0),
        severity=severity,
    )


def test_a_finding_reads_as_row_and_symptom_evidence_cause_and_action() -> None:
    assert text_of(finding()).plain.splitlines() == [
        "error infra (infra.disk-full): task 3, rollout 0, attempt 1: 3 MiB are free",
        "  seen  rows.jsonl:17 /verifier: sk-secret",
        "  why   the disk is nearly full",
        "  do    choose another --output",
    ]


def test_diagnose_shows_five_parts_under_the_guides_words() -> None:
    assert five_parts(finding()).splitlines() == [
        "error (infra.disk-full)",
        "  observed symptom: task 3, rollout 0, attempt 1: 3 MiB are free",
        "  failing layer: infra",
        "  evidence: rows.jsonl:17 /verifier: sk-secret",
        "  likely cause: the disk is nearly full",
        "  next concrete action: choose another --output",
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


def test_the_line_of_a_check_has_the_causes_of_its_findings() -> None:
    problem = finding()
    runs = tuple(
        CheckRun(Layer.INFRA, "disk", Looked("no", findings), 0.0)
        for findings in ((problem, problem), ())
    )

    lines = Report(runs, (problem,)).texts()[0].plain.splitlines()

    assert [line.partition(": ")[2] for line in lines] == ["no (infra.disk-full)", "no"]


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


def test_what_was_said_on_several_lines_is_shown_on_one_and_no_place_is_made_up() -> None:
    page = replace(finding(), evidence=(Quote("", "<html>\n  <p>501</p>\n</html>"),))

    assert "  seen  <html> <p>501</p> </html>" in text_of(page).plain.splitlines()


def test_before_a_run_a_row_has_no_attempt() -> None:
    assert row_text(RowIdentity(task=3)) == "task 3"


def test_a_list_that_is_only_announced_is_told_with_its_first_entry() -> None:
    stale = StaleRun(
        "the run at out.jsonl was made from something else:\n  - the input rows differ",
        cause=KnownCause.STALE_INPUTS,
    )

    found = finding_of(stale)

    assert found.cause == "cache.stale-inputs"
    assert found.symptom.endswith("made from something else: the input rows differ")


def test_an_endpoint_that_cannot_be_reached_is_quoted_with_the_way_to_it() -> None:
    error = add_hop(InfraError("http://x/v1/models: Connection refused"), Hop("policy_model"))

    assert finding_of(error).evidence == (
        Quote("policy_model", "http://x/v1/models: Connection refused"),
    )


def test_who_only_passed_an_answer_on_is_not_quoted_beside_who_gave_it() -> None:
    hops = (Hop("agent", "/run", 500), Hop("model", "/v1", 501, "<html>no</html>"))
    error = ModelError("model: /v1 answered 501: <html>no</html>", evidence=CallEvidence(hops=hops))

    found = finding_of(error)

    assert [quote.source for quote in found.evidence] == ["model /v1"]
    assert found.cause == "model.no-openai-endpoint"


def test_a_path_in_a_message_is_no_name_to_look_for_in_configs(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("entrypoint: app.py\n")

    assert quote_named("/data/my_env.py, line 3, column 1: not allowed here", [config]) == ()


def test_a_line_that_is_no_yaml_is_quoted_without_its_secret(tmp_path: Path) -> None:
    config = tmp_path / "env.yaml"
    config.write_text("policy_model_name: tiny\npolicy_api_key: sk-secret: x\n")

    with pytest.raises(ConfigError) as raised:
        read_yaml(config)
    (found,) = quote_places(raised.value)

    assert (found.source, found.line, found.text) == (str(config), 2, "policy_api_key: ****")


def test_a_forecast_of_time_is_told_as_the_least_that_it_takes() -> None:
    expected = Forecast(100, 100, 0, 10, 10, 10, 50, 7.0, {}, ())

    assert "  time     at least 7 s, if 50 at once are answered as fast as one" in expected.lines()

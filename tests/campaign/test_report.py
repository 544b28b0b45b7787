"""The report says which stack for which band and how sure, and gives every empty cell its reason."""

from campaign.planted_journal import begun_of, entries_of, measured, small, up_of, visits_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.campaign.adopt import adopted_text, pick_band
from kitctl.campaign.events import Ended, Event, Hole, Reason
from kitctl.campaign.figures import results_of
from kitctl.campaign.recommend import recommend, recommendation_line
from kitctl.campaign.report import Report, report_of
from kitctl.campaign.report_text import report_lines, report_page
from kitctl.campaign.state import State, fold
from kitctl.kit.yaml_reader import read_yaml

BEGUN = begun_of(small(("a", "b"), (1, 8, 32)), {"a": False, "b": False})
RATES = {
    ("a", 1): 100.0,
    ("a", 8): 400.0,
    ("a", 32): 600.0,
    ("b", 1): 60.0,
    ("b", 8): 300.0,
    ("b", 32): 900.0,
}
WHY = Reason(code="crashed-by-design", cause="it crashes", evidence=("a line",), remedy="leave it")


def state_of(*more: Event) -> State:
    return fold(entries_of([*measured(BEGUN, RATES), *more]))


def report() -> Report:
    return report_of(state_of(Ended(outcome="complete")))


def test_bands_their_winners_and_how_sure() -> None:
    (table,) = report().tables
    assert [(one.band, one.winner) for one in table.recommendation] == [("1-8", "a"), ("32", "b")]
    first, last = table.recommendation
    assert first.confidence is not None and first.confidence > 0.99
    assert 0.30 < first.lead_least < 0.36 and 0.60 < first.lead_most < 0.70  # type: ignore[operator]
    assert (
        recommendation_line(last) == f"C=32: b, {round(last.lead_least * 100, 1):g} % before a; sure (1.000)"
    )  # type: ignore[operator]


@settings(max_examples=8)
@given(lead=st.floats(0.0, 0.0008))
def test_a_lead_within_the_noise_is_not_sure(lead: float) -> None:
    rates = {(arm, c): 100.0 * (1 + lead * (arm == "a")) for arm in ("a", "b") for c in (1, 8, 32)}
    state = fold(entries_of(measured(BEGUN, rates)))
    for band in recommend(results_of(state, "kit")):
        assert band.confidence is not None and band.confidence < 0.99


def test_a_stack_that_broke_a_gate_is_not_recommended() -> None:
    state = state_of(up_of("a", doubts=("the answer is wrong",)))
    found = report_of(state)
    assert found.broken_gates == {"a": "its first answers are in doubt: the answer is wrong"}
    assert {band.winner for band in found.tables[0].recommendation} == {"b"}


def test_every_empty_cell_has_its_reason() -> None:
    mine = tuple(w.key for v in visits_of(BEGUN) if v.arm.id == "b" for w in v.works)
    events = [event for event in measured(BEGUN, RATES) if getattr(event, "arm", "a") == "a"]
    found = report_of(fold(entries_of([*events, Hole(works=mine, reason=WHY)])))
    empty = [cell for cell in found.tables[0].cells if cell.output_tokens_per_s is None]
    assert [(cell.arm, cell.concurrency, cell.reason) for cell in empty] == [
        ("b", c, WHY) for c in (1, 8, 32)
    ]
    text = "\n".join(report_lines(found))
    assert "(1) crashed-by-design: it crashes\n      seen: a line\n      do:   leave it" in text


def test_a_campaign_that_is_not_over_says_what_is_open() -> None:
    found = report_of(fold(entries_of([BEGUN])))
    assert {cell.reason.code for cell in found.tables[0].cells if cell.reason} == {"not-measured"}
    assert (found.done, found.works, found.outcome) == (0, 18, None)


def test_a_rehearsal_leaves_the_large_points_as_holes() -> None:
    begun = begun_of(small(("a",), (1, 32)), {"a": False}, rehearse=True)
    found = report_of(fold(entries_of([begun])))
    reasons = {cell.concurrency: cell.reason.code for cell in found.tables[0].cells if cell.reason}
    assert reasons == {1: "not-measured", 2: "not-measured", 32: "not-rehearsed"}
    assert (
        "a rehearsal recommends nothing: every stack served the same demo model on the CPU"
        in report_lines(found)
    )


def test_the_page_stands_alone_and_holds_every_cell() -> None:
    state = state_of(Ended(outcome="complete"))
    found = report_of(state)
    page = report_page(found, [results_of(state, "kit")], css="", made_by="kitctl")
    assert page.count('data-table="campaign"') == 2
    assert "http://" not in page and "<script" not in page
    assert "recommended at C=1-8: a" in page


def test_adopt_takes_a_band_or_a_concurrency_in_it() -> None:
    bands = report().tables[0].recommendation
    assert [getattr(pick_band(bands, text), "band", None) for text in ("1-8", "C=8", "4", "32", "64", "x")] == [
        "1-8", "1-8", "1-8", "32", None, None,
    ]  # fmt: skip


def test_an_adopted_stack_is_the_winner_with_its_settings_and_provenance() -> None:
    bands = report().tables[0].recommendation
    own = {"summary": "the a stack", "uses": ["kimi"], "engine": {"context_length": 2048}}
    text = adopted_text(
        own, ("engine.graphs=off",), name="mine", chosen=bands[0], campaign="c", digest="d1", ups=[up_of("a")]
    )
    assert text.startswith("# mine: adopted from campaign c (d1).\n# C=1-8: a, ")
    assert "# run run-a, image not known" in text
    assert read_yaml(text, source="t") == {
        "summary": "the a stack (adopted for C=1-8)",
        "uses": ["kimi"],
        "engine": {"context_length": 2048, "graphs": "off"},
    }

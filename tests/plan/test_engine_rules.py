"""Each rule of the engine has a case file that makes it speak, with the whole text, and a neighbour that does not."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.errors import KitError
from kitctl.finding import Finding, Severity
from kitctl.kit.drafter_facts import DrafterFacts, read_drafter_facts
from kitctl.kit.model_facts import ModelFacts, read_model_facts
from kitctl.kit.stack import Stack
from kitctl.plan.conditions import compile_condition, holds, names_in
from kitctl.plan.engine_rules import check_rules, hooked_targets, read_rules
from kitctl.plan.rule_values import flags_of, rule_values

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
BOOK = read_rules((ROOT / "kitctl" / "data" / "engine_rules.yaml").read_text())
RULES_PAGE = ROOT / "docs" / "engine-rules.md"
PAGE_HEAD = """# What SGLang accepts silently or refuses late

Made from `kitctl/data/engine_rules.yaml`; `pytest tests/plan/test_engine_rules.py --accept` writes it anew.
`kitctl plan` and `kitctl up` judge every stack by these rules before anything is fetched, built or started.
`block` ends with exit 3 (`--skip CODE` overrules), `warn` costs speed or safety, `note` is worth knowing. Words in
braces are filled in. Flags are held against the flag table of the pinned release besides: `flag-unknown`,
`flag-abbreviated`, `flag-removed`, `flag-deprecated`, `flag-value`, `flag-repeated`, `flag-without-effect`.

| code | severity | releases | cause | remedy | source |
|---|---|---|---|---|---|
"""
FILES = sorted((CASES / "rules").glob("*.yaml"))


def config(name: str, changes: dict[str, Any]) -> str:
    tree = json.loads((CASES / "models" / name / "config.json").read_text())
    for path, value in changes.items():
        *above, last = path.split(".")
        place = tree
        for step in above:
            place = place[step]
        place[last] = value
    return json.dumps(tree)


def judge(case: dict[str, Any]) -> tuple[Finding, ...]:
    model: ModelFacts | None = None
    drafter: DrafterFacts | None = None
    if "model" in case:
        model = read_model_facts(config(case["model"], case.get("model_set", {})))
    if "drafter" in case:
        drafter = read_drafter_facts(config(case["drafter"], case.get("drafter_set", {})))
    base = {"name": "case", "summary": "", "model": "target"}
    return check_rules(
        msgspec.convert(base | case.get("stack", {}), Stack),
        book=BOOK,
        release=case.get("release", "0.5.16"),
        argv=tuple(case.get("argv", ())),
        archs=tuple(case.get("archs", ())),
        model=model,
        drafter=drafter,
        environment=case.get("environment"),
        gpu_count=case.get("gpu_count"),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_rule_speaks_in_its_case_and_not_in_the_neighbour(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    spoken = [finding for finding in judge(case["speaks"]) if finding.code == path.stem]
    assert [(finding.cause, finding.remedy) for finding in spoken] == [(case["cause"], case["remedy"])]
    assert path.stem not in [finding.code for finding in judge(case["silent"])]


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {ready.rule.code for ready in BOOK.rules} == {path.stem for path in FILES}
    assert len(BOOK.rules) == len(FILES)


def rules_page() -> str:
    rows = [
        f"| `{rule.code}` | {rule.severity} | {_span(rule.since, rule.until)} | {_cell(rule.cause)} | "
        f"{_cell(rule.remedy)} | {_cell(rule.source)} |"
        for rule in (ready.rule for ready in BOOK.rules)
    ]
    return PAGE_HEAD + "\n".join(rows) + "\n"


def _span(since: str | None, until: str | None) -> str:
    if since is None and until is None:
        return "all"
    return " ".join(part for part in (since and f"from {since}", until and f"before {until}") if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("!s}", "}")


def test_the_page_of_rules_is_made_from_the_data(accept: bool) -> None:
    if accept:
        RULES_PAGE.write_text(rules_page())
    assert RULES_PAGE.read_text() == rules_page()


def test_conditions_and_texts_read_known_names_only() -> None:
    stack = Stack(name="x", summary="", model="m")
    values = rule_values(
        stack,
        release="0.5.16",
        argv=(),
        archs=(),
        environment={},
        model=None,
        drafter=None,
        gpu_count=None,
        links=None,
    )
    for ready in BOOK.rules:
        for text in (ready.rule.when, *ready.rule.let.values()):
            assert names_in(text) - set(values) - {"hooked"} == set(), ready.rule.code


def test_a_plain_stack_of_which_nothing_else_is_known_has_no_finding() -> None:
    assert judge({}) == ()


def test_the_reference_stack_has_notes_only() -> None:
    stack = {
        "parallel": {"tp": 8, "ep": 4},
        "engine": {"trust_remote_code": True, "max_running_requests": 32, "grammar_backend": "none"},
        "drafter": {"model": "d", "block_size": 8},
    }
    found = judge({"stack": stack, "model": "kimi-k2.6", "drafter": "kimi-k2.6-dflash", "archs": ["12.0"]})
    assert [(finding.severity, finding.code) for finding in found] == [
        (Severity.NOTE, "dflash-refuses-logprobs")
    ]


def test_rules_of_some_releases_stay_silent_where_the_release_is_unknown() -> None:
    stack = {"drafter": {"model": "d"}, "engine": {"max_running_requests": 8}}
    assert judge({"stack": stack, "release": ""}) == ()


def test_hooks_are_those_of_the_release_and_earlier() -> None:
    early, late = hooked_targets(BOOK, "0.5.16"), hooked_targets(BOOK, "0.5.23")
    assert "KimiK25ForConditionalGeneration" in early
    assert "KimiK3ForConditionalGeneration" not in early
    assert set(early) < set(late)
    assert "KimiK3ForConditionalGeneration" in late


def test_a_wrong_condition_names_rule_and_text() -> None:
    with pytest.raises(KitError) as refused:
        compile_condition("tp = 8", source="engine_rules.yaml: some-rule")
    assert refused.value.code == "bad-condition"
    assert refused.value.cause.startswith("engine_rules.yaml: some-rule: 'tp = 8': ")


@pytest.mark.parametrize("text", ["(lambda: 1)()", "tp.real", "[x for x in tp]", "flag(name='x')", "tp is 8"])
def test_only_the_small_language_is_accepted(text: str) -> None:
    with pytest.raises(KitError):
        compile_condition(text, source="test")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1", True),
        ("unknown > 1", False),
        ("unknown is None", True),
        ("not unknown > 1", True),
        ("unknown > 1 or a == 2", True),
        ("unknown > 1 and a == 2", False),
        ("1 < a < 3", True),
        ("1 < a < 2", False),
        ("a % 0 == 1", False),
        ("text > 1", False),
        ("a in [1, 2]", True),
        ("nothing('x') is None", True),
        ("a if unknown > 1 else 0", False),
        ("-a + 4 == 2", True),
    ],
)
def test_what_is_unknown_does_not_hold(text: str, expected: bool) -> None:
    values = {"a": 2, "unknown": None, "text": "x", "nothing": lambda name: None}
    assert holds(compile_condition(text, source="test"), values) is expected


def test_flags_are_read_from_both_spellings() -> None:
    argv = ("--a", "1", "--b=2", "--c", "--a", "3", "-1")
    assert flags_of(argv) == {"a": "3", "b": "2", "c": True}


SIZES = st.integers(1, 17)
WORDS = st.sampled_from(
    [
        "--moe-dp-size",
        "--nnodes",
        "x",
        "0",
        "-1",
        "2.5",
        "--max-running-requests",
        "--ep-size",
        "--device",
        "cpu",
    ]
)
SHAPES = st.sampled_from([None, "kimi-k2.6", "kimi-small", "qwen3-tiny", "qwen3-tiny-moe"])
DRAFTERS = st.sampled_from([None, "kimi-k2.6-dflash", "qwen3-tiny-dflash"])


@settings(max_examples=150, deadline=None)
@given(
    tp=SIZES,
    ep=SIZES,
    pp=SIZES,
    shape=SHAPES,
    drafter=DRAFTERS,
    algorithm=st.sampled_from(["DFLASH", "EAGLE", "EAGLE3", "DDTREE"]),
    argv=st.lists(WORDS, max_size=6),
    archs=st.lists(st.sampled_from(["9.0", "10.3", "12.0", "12.1"]), max_size=2),
    release=st.sampled_from(["0.5.11", "0.5.13.post1", "0.5.16", "0.5.23", ""]),
)
def test_rules_judge_any_stack_without_failing(
    tp: int,
    ep: int,
    pp: int,
    shape: str | None,
    drafter: str | None,
    algorithm: str,
    argv: list[str],
    archs: list[str],
    release: str,
) -> None:
    case: dict[str, Any] = {
        "stack": {"parallel": {"tp": tp, "ep": ep, "pp": pp}},
        "argv": argv,
        "archs": archs,
    }
    case |= {"release": release} | ({"model": shape} if shape else {})
    if drafter:
        case |= {"drafter": drafter}
        case["stack"] |= {"drafter": {"model": "d", "algorithm": algorithm}}
    for finding in judge(case):
        assert finding.code
        assert "{" not in finding.cause + finding.remedy
        assert "None" not in finding.cause + finding.remedy

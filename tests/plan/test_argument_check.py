"""The engine's answers to launch lines become findings and smoke checks that name stack and flag."""

from kitctl.finding import Finding, Severity
from kitctl.plan.argument_check import Answer, answer_findings, answer_lines, launch_line_checks, read_answers

ACCEPTED = Answer(name="tp8", arch="12.0", ok=True, error="", resolved={"attention_backend": "triton"})
REFUSED = Answer(
    name="tp8", arch="9.0", ok=False, error="unrecognized arguments: --no-such-flag", resolved={}
)
WARNED = Answer(
    name="old", arch=None, ok=True, error="", resolved={}, warnings=("--disable-cuda-graph is deprecated",)
)


def test_answers_are_picked_out_of_the_engines_chatter() -> None:
    line = '{"name": "tp8", "arch": "12.0", "ok": true, "error": "", "resolved": {"page_size": 1}}'
    assert read_answers(f"INFO: x\n{{broken\n{line}\n") == (
        Answer(name="tp8", arch="12.0", ok=True, error="", resolved={"page_size": 1}),
    )


def test_a_refusal_blocks_and_names_stack_and_flag() -> None:
    assert answer_findings([ACCEPTED, REFUSED], asked=2, ended=None) == (
        Finding(
            code="arguments-refused",
            severity=Severity.BLOCK,
            cause="the engine refuses the launch line of tp8 on 9.0: unrecognized arguments: --no-such-flag",
            where="stacks/tp8.yaml",
            remedy="mend the setting or flag that it names in the stack tp8",
        ),
    )


def test_a_deprecated_flag_is_a_note() -> None:
    (note,) = answer_findings([WARNED], asked=1, ended=None)
    assert (note.code, note.severity) == ("arguments-deprecated", Severity.NOTE)


def test_a_missing_answer_blocks_with_the_programs_last_words() -> None:
    (lost,) = answer_findings([], asked=3, ended="exit code 1: ModuleNotFoundError")
    assert lost.cause == "3 of 3 launch lines got no answer inside the image"
    assert lost.evidence == ("exit code 1: ModuleNotFoundError",)


def test_one_smoke_check_a_stack_over_all_archs() -> None:
    findings = answer_findings([ACCEPTED, REFUSED, WARNED], asked=4, ended=None)
    checks = launch_line_checks([ACCEPTED, REFUSED, WARNED], findings, seconds=9.0)
    assert [(check.name, check.ok, check.detail) for check in checks] == [
        ("launch-line tp8", False, "refused on 9.0: unrecognized arguments: --no-such-flag"),
        ("launch-line old", True, "accepted (cpu ?)"),
        ("launch-lines", False, "1 of 4 launch lines got no answer inside the image: "),
    ]


def test_lines_for_a_person_show_what_the_engine_chose() -> None:
    assert answer_lines([ACCEPTED, REFUSED]) == (
        "tp8            12.0  accepted  attention_backend=triton",
        "tp8            9.0   REFUSED   unrecognized arguments: --no-such-flag",
    )

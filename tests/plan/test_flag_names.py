from pathlib import Path

import pytest

from kitctl.finding import Finding, Severity
from kitctl.kit.flag_table import FlagTable, read_flag_table
from kitctl.plan.engine_rules import read_rules
from kitctl.plan.flag_names import check_flag_names, split_flags

DATA = Path(__file__).parents[2] / "kitctl" / "data"
CHANGES = read_rules((DATA / "engine_rules.yaml").read_text()).flags


def table(release: str) -> FlagTable:
    return read_flag_table((DATA / "flags" / f"{release}.json").read_text(), source=release)


def check(words: str, release: str = "0.5.16") -> tuple[Finding, ...]:
    return check_flag_names(tuple(words.split()), changes=CHANGES, table=table(release), release=release)


@pytest.mark.parametrize(
    ("words", "release", "code", "cause", "remedy"),
    [
        (
            "--max-run 3",
            "0.5.16",
            "flag-abbreviated",
            "--max-run is no flag of SGLang 0.5.16, but its parser takes abbreviations: it would be read as "
            "--max-running-requests",
            "write the full name: --max-running-requests",
        ),
        (
            "--speculative-dflash",
            "0.5.16",
            "flag-removed",
            "SGLang 0.5.16 has no --speculative-dflash: no release has it; its parser calls it ambiguous",
            "drafter.algorithm: DFLASH in the stack",
        ),
        (
            "--cuda-graph-max-bs 64",
            "0.5.23",
            "flag-removed",
            "SGLang 0.5.23 has no --cuda-graph-max-bs: removed in 0.5.20",
            "write --cuda-graph-max-bs-decode",
        ),
        (
            "--no-such-flag",
            "0.5.16",
            "flag-unknown",
            "SGLang 0.5.16 has no flag --no-such-flag; it would exit with code 2",
            "remove --no-such-flag",
        ),
        (
            "--tpsize 8",
            "0.5.16",
            "flag-unknown",
            "SGLang 0.5.16 has no flag --tpsize; it would exit with code 2",
            "did you mean --tp-size? Else remove --tpsize",
        ),
        (
            "--kv-cache-dtype fp8",
            "0.5.16",
            "flag-value",
            "--kv-cache-dtype of SGLang 0.5.16 does not take 'fp8'",
            "choose one of auto, fp8_e5m2, fp8_e4m3, mxfp8, bf16, bfloat16, nvfp4, fp4_mx_block16, fp4_e2m1",
        ),
        (
            "--tp-size eight",
            "0.5.16",
            "flag-value",
            "--tp-size of SGLang 0.5.16 needs a value of type int, not 'eight'",
            "write --tp-size with a number",
        ),
        (
            "--trust-remote-code true",
            "0.5.16",
            "flag-value",
            "--trust-remote-code of SGLang 0.5.16 takes no value, not 'true'",
            "remove the value",
        ),
        (
            "--tp-size",
            "0.5.16",
            "flag-value",
            "--tp-size of SGLang 0.5.16 needs a value",
            "write --tp-size VALUE",
        ),
        (
            "--tensor-parallel-size 8 --tp-size 4",
            "0.5.16",
            "flag-repeated",
            "--tp-size stands twice in the argv; the engine takes the last and ignores the others",
            "keep one --tp-size",
        ),
    ],
)
def test_a_flag_that_the_engine_would_not_read_as_meant_is_refused(
    words: str, release: str, code: str, cause: str, remedy: str
) -> None:
    found = check(words, release)
    assert [(one.severity, one.code, one.cause, one.remedy) for one in found] == [
        (Severity.BLOCK, code, cause, remedy)
    ]


def test_a_deprecated_flag_is_a_warning_with_its_replacement() -> None:
    (found,) = check("--cuda-graph-max-bs 64")
    assert (found.severity, found.code, found.where) == (
        Severity.WARN,
        "flag-deprecated",
        "argv.--cuda-graph-max-bs",
    )
    assert found.remedy == "write --cuda-graph-max-bs-decode"


def test_a_flag_that_nothing_reads_is_a_warning() -> None:
    (found,) = check("--num-continuous-decode-steps 4")
    assert (found.severity, found.code) == (Severity.WARN, "flag-without-effect")
    assert found.cause == (
        "--num-continuous-decode-steps has no effect: every release from 0.5.9 to 0.5.23 accepts it "
        "and reads it nowhere"
    )


def test_good_flags_are_silent() -> None:
    words = "--tp-size 8 --ep-size 4 --mem-fraction-static 0.85 --enable-metrics --chunked-prefill-size -1"
    assert check(words) == check(words, "0.5.23") == ()


def test_without_a_table_it_is_said_that_names_were_not_checked() -> None:
    found = check_flag_names(("--no-such-flag",), changes=CHANGES, table=None, release="0.5.99")
    assert [(one.severity, one.code) for one in found] == [(Severity.NOTE, "flags-not-checked")]
    assert check_flag_names((), changes=CHANGES, table=None, release="0.5.99") == ()


def test_words_after_a_flag_are_its_values() -> None:
    assert split_flags(("--a", "1", "2", "--b=3", "--c")) == [
        ("--a", ("1", "2")),
        ("--b", ("3",)),
        ("--c", ()),
    ]

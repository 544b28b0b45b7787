"""A verification told to a person and to a program, and what refuses a start."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity
from kitctl.store.verdict import Fault, FileVerdict
from kitctl.store.verify_report import VerifyReport, require_ready, require_whole, verify_json, verify_lines

BROKEN = FileVerdict(
    path="a.safetensors", fault=Fault.SIZE, cause="is cut short", evidence=("3 bytes there",)
)
FINDING = Finding(
    code="model-file-size",
    severity=Severity.BLOCK,
    cause="org/x: a.safetensors is cut short",
    remedy="mend it",
)


def report(*verdicts: FileVerdict, hashed: int = 0, seconds: float = 2.0) -> VerifyReport:
    return VerifyReport(
        repo="org/x",
        commit="a" * 40,
        folder="/s/x",
        file_count=3,
        size_bytes=4_000_000_000,
        hashed_bytes=hashed,
        seconds=seconds,
        verdicts=verdicts,
        findings=(FINDING,) if verdicts else (),
    )


def test_a_whole_model_is_one_line_with_its_rate() -> None:
    assert verify_lines([report(hashed=4_000_000_000)]) == (
        "org/x: 3 files, 4.00 GB, proven in 2 s (2.00 GB/s)",
    )
    assert verify_lines([report(seconds=0.01)]) == ("org/x: 3 files, 4.00 GB, in order (0 s)",)


def test_a_broken_model_is_counted_and_its_findings_follow() -> None:
    assert verify_lines([report(BROKEN)]) == (
        "org/x: 1 of 3 files are not as models.lock names them",
        "BLOCK model-file-size: org/x: a.safetensors is cut short",
        "      do:   mend it",
    )


def test_the_json_keeps_its_keys() -> None:
    data = verify_json([report(BROKEN)], store="/s", level="quick")
    assert list(data) == ["schema", "store", "level", "ok", "models", "findings"]
    (model,) = data["models"]  # type: ignore[misc]
    assert list(model) == [
        "name", "ok", "commit", "folder", "files", "size_bytes", "hashed_bytes", "seconds", "faults",
    ]  # fmt: skip
    assert model["faults"] == [
        {"path": "a.safetensors", "code": "file-size", "cause": "is cut short", "evidence": ["3 bytes there"]}
    ]


def test_a_start_without_fetching_is_refused_with_what_is_wrong() -> None:
    require_ready(report())
    with pytest.raises(KitError) as caught:
        require_ready(report(BROKEN))
    assert (caught.value.code, caught.value.exit_code) == ("model-not-ready", Exit.REFUSED)
    assert (caught.value.evidence, caught.value.remedy) == (("a.safetensors is cut short",), "mend it")


def test_a_broken_folder_of_the_users_is_refused() -> None:
    require_whole(report())
    with pytest.raises(KitError) as caught:
        require_whole(report(BROKEN))
    assert (caught.value.code, caught.value.exit_code) == ("local-model-broken", Exit.FETCH)


def test_a_missing_file_fails_a_verification_though_a_plan_only_notes_it() -> None:
    missing = msgspec.structs.replace(FINDING, code="model-missing", severity=Severity.NOTE)
    one = replace(report(BROKEN), findings=(missing,))
    assert verify_lines([one])[1] == "BLOCK model-missing: org/x: a.safetensors is cut short"
    assert verify_json([one], store="/s", level="quick")["findings"][0]["severity"] == "block"  # type: ignore[index]

"""Two images' packages and files are compared by name, version, size, mode and content."""

import pytest

from kitctl.errors import KitError
from kitctl.kit.image_record import ImageRecord, Smoke, SmokeCheck, read_image_record, record_text
from kitctl.plan.image_checks import check_image
from kitctl.plan.image_diff import Change, Contents, diff_contents, diff_json, diff_lines, read_contents
from kitctl.plan.sbom import sbom_text
from kitctl.plan.smoke import read_smoke

BEFORE = Contents(
    python={"torch": "2.11.0", "gone": "1"},
    debian={"libc6": "2.36"},
    files={"/a": (10, "0o100644", "aaa"), "/same": (1, "0o100644", "x")},
)
AFTER = Contents(
    python={"torch": "2.14.1"},
    debian={"libc6": "2.36"},
    files={"/a": (12, "0o100755", "bbb"), "/same": (1, "0o100644", "x")},
)
RECORD = ImageRecord(
    image="sglang",
    release="0.5.16",
    stage="cpu",
    reference="kitctl/sglang:x",
    image_id="sha256:1",
    pins_hash="p" * 64,
    inputs_hash="i" * 64,
    base="kitctl/base:debian-bookworm-1",
    base_kind="kit",
    base_id=None,
    built_at="2026-01-01T00:00:00Z",
    seconds={"build": 1.5},
    size_bytes=11,
    layers=(),
)


def smoke(*, ok: bool) -> Smoke:
    check = SmokeCheck(name="versions", ok=ok, detail="idna is 1, pinned 2", seconds=0.1)
    return Smoke(at="2026-01-02T00:00:00Z", image_id="sha256:1", checks=(check,))


def test_what_differs_is_listed_with_both_sides() -> None:
    diff = diff_contents(BEFORE, AFTER)
    assert diff.python == (
        Change(name="gone", before="1", after=None),
        Change(name="torch", before="2.11.0", after="2.14.1"),
    )
    assert (diff.debian, diff.size_change_bytes, diff.is_empty) == ((), 2, False)
    assert diff_lines(diff) == (
        "size: +2 B",
        "python  gone: 1 -> -",
        "python  torch: 2.11.0 -> 2.14.1",
        "file    /a: 10 B, 0o100644, aaa -> 12 B, 0o100755, bbb",
    )
    assert diff_json(diff, "A", "B")["files"] == [
        {"name": "/a", "before": "10 B, 0o100644, aaa", "after": "12 B, 0o100755, bbb"}
    ]


def test_an_image_is_the_same_as_itself() -> None:
    assert diff_lines(diff_contents(BEFORE, BEFORE)) == ("the two images hold the same packages and files",)


def test_a_listing_that_failed_names_the_image() -> None:
    with pytest.raises(KitError) as refused:
        read_contents("Unable to find image", reference="x:1")
    assert refused.value.cause == "what x:1 holds could not be listed"


def test_the_bill_of_materials_is_the_same_text_for_the_same_image() -> None:
    text = sbom_text(AFTER, RECORD)
    assert text == sbom_text(AFTER, RECORD)
    assert '"purl": "pkg:pypi/torch@2.14.1"' in text
    assert '"purl": "pkg:deb/debian/libc6@2.36"' in text


def test_a_record_survives_writing_and_a_damaged_one_is_none() -> None:
    assert read_image_record(record_text(RECORD)) == RECORD
    assert read_image_record("{") is None


def test_an_image_of_other_pins_blocks() -> None:
    (differs, untested) = check_image(
        "kitctl/sglang:x",
        image_id="sha256:1",
        labels={"kitctl.pins": "q" * 64},
        pins_hash="p" * 64,
        record=None,
    )
    assert (differs.code, differs.evidence) == (
        "image-pins-differ",
        ("image: qqqqqqqqqqqq", "kit: pppppppppppp"),
    )
    assert untested.code == "image-untested"


@pytest.mark.parametrize(("ok", "codes"), [(True, []), (False, ["image-failed"])])
def test_an_image_that_failed_its_test_blocks(ok: bool, codes: list[str]) -> None:
    import msgspec

    record = msgspec.structs.replace(RECORD, smoke=smoke(ok=ok))
    labels = {"kitctl.pins": RECORD.pins_hash, "kitctl.base": "kit"}
    found = check_image("x", image_id="sha256:1", labels=labels, pins_hash=RECORD.pins_hash, record=record)
    assert [finding.code for finding in found] == codes


def test_an_image_that_was_swapped_under_its_name_blocks() -> None:
    labels = {"kitctl.pins": RECORD.pins_hash}
    (found,) = check_image(
        "kitctl/sglang:x", image_id="sha256:2", labels=labels, pins_hash=RECORD.pins_hash, record=RECORD
    )
    assert (found.code, found.evidence) == ("image-not-recorded", ("engine: sha256:2", "record: sha256:1"))
    assert found.remedy == "kitctl images smoke sglang --release 0.5.16 --stage cpu"


def test_a_smoke_test_that_ended_early_is_red() -> None:
    line = '{"name": "versions", "ok": true, "detail": "fine", "seconds": 0.1}'
    found = read_smoke(f"chatter\n{line}\n", image_id="i", at="t", ended="exit code 1: killed")
    assert [(check.name, check.ok) for check in found.checks] == [("versions", True), ("smoke-test", False)]
    assert not found.ok

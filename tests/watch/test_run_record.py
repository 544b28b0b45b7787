"""A run record is read back as it was written; what is none is refused."""

import json

import msgspec
import pytest
from watch.test_drift import RECORD

from kitctl.watch.run_record import Outcome, PhaseTime, RunModel, read_record, record_text

FULL = msgspec.structs.replace(
    RECORD,
    container_id="c",
    models=(RunModel(model="m", role="target", content_hash="h"),),
    phases=(PhaseTime(name="image", seconds=0.5),),
    exit_code=137,
    oom_killed=False,
)


def test_round_trip() -> None:
    assert read_record(record_text(FULL)) == FULL
    assert read_record(record_text(RECORD)) == RECORD


def test_text_is_indented_json_with_its_schema() -> None:
    text = record_text(FULL)
    assert json.loads(text)["schema"] == "kitctl.run/1"
    assert text.startswith('{\n  "schema"')
    assert text.endswith("}\n")


def test_keys_are_a_contract() -> None:
    assert {
        "schema", "id", "stack", "project", "fingerprint", "kitctl", "command", "started", "outcome", "url",
        "served_model", "plan", "facts", "image_id", "container_id", "argv_live", "models", "phases", "ready",
        "ended", "exit_code", "oom_killed", "canary", "diagnoses", "api_key_file", "folder",
    } <= set(json.loads(record_text(FULL)))  # fmt: skip
    assert [outcome.value for outcome in Outcome] == [
        "starting", "ready", "failed", "interrupted", "stopped", "crashed",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", record_text(FULL).replace("kitctl.run", "x", 0)[:200]])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_record(text)

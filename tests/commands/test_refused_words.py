"""What a fresh user types wrongly is refused at once, with exit 2, and says what would be right."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kitctl_process import KitUser

from kitctl.commands.check import chosen_archs
from kitctl.commands.outside_types import exit_code, image_reference
from kitctl.edge.files import require_place
from kitctl.edge.store_files import store_at
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity, skipped_in_vain
from kitctl.result import shown

HASH = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    "text",
    ["kitctl/sglang:0.5.16-13.0-cpu-b8206d99038f", "localhost:5000/a/b_c__d:T-1.x", f"ghcr.io/a/b@{HASH}",
     HASH, "abcdef012345", f"Host.Example/a:1@{HASH}", "[::1]:5000/a"],
)  # fmt: skip
def test_images_as_the_engine_names_them(text: str) -> None:
    assert image_reference(text) == text


@pytest.mark.parametrize(
    "text", ["bad image", "", "Upper", "a:", "a/", "/a", "a@sha256:12", "-a", "a:b c", "a\n", "http://a/b"]
)
def test_what_is_no_image(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        image_reference(text)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("255", 255), ("137", 137), ("-9", -9), ("-64", -64)])
def test_ends_of_a_process(text: str, number: int) -> None:
    assert exit_code(text) == number


@pytest.mark.parametrize("text", ["256", "-65", "1e2", "99999999999999999999", "", "x", "٣"])
def test_what_is_no_end_of_a_process(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        exit_code(text)


@given(st.text())
def test_what_is_shown_steers_no_terminal(text: str) -> None:
    cleaned = shown(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", cleaned)
    assert shown(cleaned) == cleaned


def test_escapes_are_written_out_and_tabs_stay() -> None:
    assert shown("a\tb\x1b]0;x\x07ü\n") == "a\tb\\x1b]0;x\\x07ü\n"


def test_an_arch_that_the_image_has_no_code_for() -> None:
    assert chosen_archs((), ("9.0", "10.0")) == ("9.0", "10.0")
    assert chosen_archs(("9.0",), ("9.0", "10.0")) == ("9.0",)
    with pytest.raises(KitError) as refused:
        chosen_archs(("9.0", "9.9"), ("9.0", "10.0"))
    assert (refused.value.code, refused.value.exit_code) == ("arch-unknown", Exit.USAGE)


def test_a_code_that_is_skipped_in_vain() -> None:
    found = [Finding(code="port-taken", severity=Severity.BLOCK, cause="c", remedy="r")]
    assert skipped_in_vain(found, ["port-taken"]) == ()
    (line,) = skipped_in_vain(found, ["port-token", "port-token"])
    assert line.startswith("--skip port-token: ") and line.endswith("did you mean 'port-taken'?")


def test_the_folder_of_a_named_file_must_be_there(tmp_path: Path) -> None:
    for fine in (None, "x.html", str(tmp_path / "x")):
        require_place(fine)
    with pytest.raises(KitError) as refused:
        require_place(str(tmp_path / "no" / "x"))
    assert (refused.value.code, refused.value.exit_code) == ("no-such-folder", Exit.USAGE)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("below", ["", "/below"])
def test_a_store_is_a_folder_or_none_yet(tmp_path: Path, below: str) -> None:
    assert store_at(str(tmp_path / "new" / "store")) == str(tmp_path / "new" / "store")
    (tmp_path / "file").write_text("")
    with pytest.raises(KitError) as refused:
        store_at(f"{tmp_path}/file{below}")
    assert (refused.value.code, refused.value.exit_code) == ("no-store", Exit.USAGE)


WRONG = [
    (("plan", "cpu-demo", "--api-key-file", "nofile"), "nofile cannot be read"),
    (("plan", "cpu-demo", "--api-key-file", "empty"), "empty must hold one key"),
    (("plan", "cpu-demo", "--add", "gateway", "--tls-cert", "nofile", "--tls-key", "empty"), "nofile cannot"),
    (("plan", "cpu-demo", "--image", "bad image"), "'bad image' is no image"),
    (("plan", "cpu-demo", "--store", "empty"), "is no folder"),
    (("verify", "cpu-demo", "--only", "model", "--store", "empty"), "is no folder"),
    (("lint", "-"), "stdin holds no Kubernetes object"),
    (("compare", "published", "--html", "no/x.html"), "there is no folder no"),
    (("bench", "--url", "http://127.0.0.1:9", "-o", "no/x.jsonl"), "there is no folder no"),
    (("quality", "--url", "http://127.0.0.1:9", "-o", "no/x.json"), "there is no folder no"),
    (("accept", "--url", "http://127.0.0.1:9", "-o", "no/x.json"), "there is no folder no"),
    (("quality", "--url", "http://127.0.0.1:9", "-o", "full"), "full holds something already"),
    (("accept", "--url", "http://127.0.0.1:9", "-o", "full"), "full holds something already"),
    (("accept", "--url", "http://127.0.0.1:9", "--without", "nofile"), "nofile cannot be read"),
    (("accept",), "kitctl accept STACK, or kitctl accept --url"),
    (("diagnose", "empty", "--exit-code", "999"), "'999' is no exit code"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=lambda value: " ".join(value)[:40])
def test_wrong_words_are_refused(kit_user: KitUser, words: tuple[str, ...], said: str) -> None:
    (kit_user.home / "empty").write_text("")
    (kit_user.home / "full").write_text("x")
    done = kit_user.run(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (kit_user.home / "no").exists()


def test_a_logs_escapes_do_not_reach_the_terminal(kit_user: KitUser) -> None:
    log = "Traceback (most recent call last):\nRuntimeError: odd \x9b2J\x07 end\n"
    (kit_user.home / "log").write_text(log)
    done = kit_user.run("diagnose", "log", "--exit-code", "1")
    assert "odd \\x9b2J\\x07 end" in done.stdout
    assert "\\u009b" in kit_user.run("diagnose", "log", "--exit-code", "1", "--json").stdout


def test_tls_without_a_port_that_speaks_it(kit_user: KitUser) -> None:
    (kit_user.home / "pem").write_text("x")
    found = kit_user.json("plan", "cpu-demo", "--tls-cert", "pem")["findings"]
    assert "tls-without-gateway" in [one["code"] for one in found]

"""A bundle that is not as it was made is always refused, and nothing is taken from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle.planted import FILES, STACK, entry, sha256, write_bundle
from hypothesis import given, settings
from hypothesis import strategies as st

from kitctl.bundle.manifest import digest_of, manifest_text, read_manifest, sums_text
from kitctl.edge.bundle_place import missing_files, place_model
from kitctl.edge.bundle_reader import Objects, open_bundle, prove_bundle
from kitctl.edge.bundle_writer import BundleWriter
from kitctl.errors import Exit, KitError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "bundle"
    write_bundle(folder)
    return folder


def prove(folder: Path) -> None:
    """What ``kitctl bundle import`` does before anything else."""
    prove_bundle(open_bundle(str(folder)), came=lambda count: None)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def refused(folder: Path) -> KitError:
    with pytest.raises(KitError) as caught:
        prove(folder)
    assert caught.value.exit_code in (Exit.FETCH, Exit.USAGE)
    return caught.value


def test_a_whole_bundle_passes(whole: Path) -> None:
    prove(whole)


@settings(max_examples=300)
@given(data=st.data())
def test_a_byte_that_changed_anywhere_is_refused(whole: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files_of(whole)))
    kept = path.read_bytes()
    at = data.draw(st.integers(0, len(kept) - 1))
    mask = data.draw(st.integers(1, 255))
    path.write_bytes(kept[:at] + bytes([kept[at] ^ mask]) + kept[at + 1 :])
    try:
        said = refused(whole)
    finally:
        path.write_bytes(kept)
    assert path.name in f"{said.cause} {' '.join(said.evidence)}" or path.name == "manifest.json"


@settings(max_examples=100)
@given(data=st.data())
def test_a_file_that_was_cut_or_grew_is_refused(whole: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files_of(whole)))
    kept = path.read_bytes()
    length = data.draw(st.integers(0, len(kept) - 1))
    more = data.draw(st.binary(min_size=1, max_size=8))
    path.write_bytes(data.draw(st.sampled_from([kept[:length], kept + more])))
    try:
        refused(whole)
    finally:
        path.write_bytes(kept)


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "bundle")
    return tmp_path / "bundle"


def test_each_missing_file_is_named(bundle: Path) -> None:
    for path in files_of(bundle):
        kept = path.read_bytes()
        path.unlink()
        said = refused(bundle)
        assert path.name in said.cause
        path.write_bytes(kept)
    prove(bundle)


def test_the_damaged_part_tells_what_lies_there(bundle: Path) -> None:
    part = bundle / "parts" / "00001.part"
    raw = bytearray(part.read_bytes())
    raw[40] ^= 1
    part.write_bytes(raw)
    said = refused(bundle)
    assert said.code == "bundle-damaged"
    assert said.cause.endswith("parts/00001.part holds other bytes than manifest.json names")
    assert any(line.startswith("org/tiny: ") and "of the stream" in line for line in said.evidence)


def link_part(bundle: Path) -> None:
    part = bundle / "parts" / "00001.part"
    part.rename(bundle.parent / "elsewhere.part")
    part.symlink_to(bundle.parent / "elsewhere.part")


def link_folder(bundle: Path) -> None:
    (bundle / "parts").rename(bundle.parent / "elsewhere")
    (bundle / "parts").symlink_to(bundle.parent / "elsewhere")


def link_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").rename(bundle.parent / "m.json")
    (bundle / "manifest.json").symlink_to(bundle.parent / "m.json")


def make_fifo(bundle: Path) -> None:
    (bundle / "README.txt").unlink()
    os.mkfifo(bundle / "README.txt")


def make_manifest_fifo(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    os.mkfifo(bundle / "manifest.json")


@pytest.mark.parametrize("change", [make_manifest_fifo, link_part, link_folder, link_manifest, make_fifo])
def test_links_and_devices_are_refused(bundle: Path, change: Callable[[Path], None]) -> None:
    change(bundle)
    assert refused(bundle).code == "bundle-unsafe"


def sign_again(bundle: Path, change: Callable[[str], str]) -> None:
    """Change the manifest and make SHA256SUMS agree with it, as somebody would who means harm."""
    path = bundle / "manifest.json"
    text = change(path.read_text()).encode()
    path.write_bytes(text)
    digest = digest_of(text)
    try:
        sums = sums_text(read_manifest(text), digest)
    except KitError:
        old = (bundle / "SHA256SUMS").read_text()
        sums = f"{digest}  manifest.json\n{old.partition(chr(10))[2]}"
    (bundle / "SHA256SUMS").write_text(sums)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("stacks/mine.yaml", "stacks/../../../etc/x.yaml", "bundle-bad-manifest"),
        ("parts/00001.part", "../bundle/parts/00001.part", "bundle-bad-manifest"),
        (sha256(STACK.encode()), sha256(b"other"), "bundle-damaged"),
        (sha256(FILES["weights/a.bin"]), sha256(b"other"), "bundle-damaged"),
    ],
)
def test_a_manifest_that_was_changed_and_signed_again(bundle: Path, old: str, new: str, code: str) -> None:
    sign_again(bundle, lambda text: text.replace(old, new))
    assert refused(bundle).code == code


def test_the_digest_that_was_carried_by_hand_finds_another_bundle(bundle: Path) -> None:
    digest = open_bundle(str(bundle)).digest
    sign_again(bundle, lambda text: text.replace("2026-11-29", "2026-11-30"))
    prove(bundle)
    with pytest.raises(KitError) as caught:
        open_bundle(str(bundle), digest=digest)
    assert caught.value.code == "bundle-other"


def test_bytes_that_change_after_the_proof_reach_no_store(bundle: Path, tmp_path: Path) -> None:
    opened = open_bundle(str(bundle))
    prove(bundle)
    model = opened.manifest.models[0]
    store = tmp_path / "store"
    for part in (bundle / "parts").iterdir():
        part.write_bytes(bytes(part.stat().st_size))
    with pytest.raises(KitError) as caught:
        place_model(
            entry(),
            Objects(opened, ()),
            model.objects,
            store_dir=str(store),
            missing=missing_files(entry(), str(store)),
            came=lambda count: None,
            say=lambda line: None,
        )
    assert caught.value.code == "bundle-damaged"
    blobs = [
        path for path in store.rglob("*") if path.is_file() and "blobs" in path.parts and path.stat().st_size
    ]
    assert blobs == []
    assert not list(store.rglob("snapshots"))


def test_models_come_out_as_they_went_in(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = open_bundle(str(bundle))
    store = str(tmp_path / "store")
    missing = missing_files(entry(), store)
    assert len(missing) == len(FILES)
    place_model(
        entry(),
        Objects(opened, ()),
        opened.manifest.models[0].objects,
        store_dir=store,
        missing=missing,
        came=lambda count: None,
        say=lambda line: None,
    )
    snapshot = tmp_path / "store" / "models--org--tiny" / "snapshots" / ("a" * 40)
    assert {path: (snapshot / path).read_bytes() for path in FILES} == FILES
    assert missing_files(entry(), store) == ()


def test_a_delta_rests_on_the_older_bundle(tmp_path: Path) -> None:
    first = write_bundle(tmp_path / "old")
    old = open_bundle(str(tmp_path / "old"))
    held = {one.sha256: one.size_bytes for one in first.objects}
    files = FILES | {"new.bin": b"new" * 500}
    second = write_bundle(tmp_path / "new", held=held, since=old.digest, files=files, layer=b"other layer")
    assert second.stream_bytes < first.stream_bytes
    new = open_bundle(str(tmp_path / "new"))
    prove_bundle(new, came=lambda count: None)
    alone, both = Objects(new, ()), Objects(new, (old,))
    digest = sha256(FILES["weights/a.bin"])
    assert (alone.has(digest), both.has(digest)) == (False, True)
    assert b"".join(both.chunks(digest)) == FILES["weights/a.bin"]


WRITE = """
import sys; sys.path[:0] = {path!r}
from kitctl.edge.bundle_writer import BundleWriter
from bundle.planted import sha256
writer = BundleWriter({folder!r}, part_bytes=1000, wish='w', held={{}})
for number in range({count}):
    data = bytes([number]) * (number * 37 % 2600)
    if not writer.has(sha256(data)):
        writer.add([data[i:i + 100] for i in range(0, len(data), 100)], sha256=sha256(data), size_bytes=len(data),
                   what='x')
    print(number, flush=True)
print([part.sha256 for part in writer.finish()])
"""


@settings(max_examples=12)
@given(lines=st.integers(0, 60), garbage=st.binary(max_size=700), cut=st.integers(0, 40))
def test_an_export_that_was_killed_goes_on(
    tmp_path_factory: pytest.TempPathFactory, lines: int, garbage: bytes, cut: int
) -> None:
    """Killed at any object, with torn bytes behind the last whole one: in the end the same parts lie there."""
    count = 60
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    straight, broken = tmp_path_factory.mktemp("straight"), tmp_path_factory.mktemp("broken")

    def run(folder: Path, until: int | None) -> str:
        code = WRITE.format(path=path, folder=str(folder), count=count)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if len(said) == until:
                    process.kill()
        return said[-1] if said else ""

    wanted = run(straight, None)
    if lines:
        run(broken, lines)
        parts = sorted((broken / "parts").glob("*.part"))
        if parts:
            with parts[-1].open("ab") as torn:
                torn.write(garbage)
        journal = broken / "export.journal"
        whole = journal.read_text().splitlines(keepends=True)
        if cut and len(whole) > 2:
            journal.write_text("".join(whole[:-1]) + whole[-1][: min(cut, len(whole[-1]) - 2)])
    assert run(broken, None) == wanted
    for part in (straight / "parts").iterdir():
        assert (broken / "parts" / part.name).read_bytes() == part.read_bytes()


def test_another_export_is_not_gone_on_with(tmp_path: Path) -> None:
    BundleWriter(str(tmp_path), part_bytes=1000, wish="one", held={}).close()
    with pytest.raises(KitError) as caught:
        BundleWriter(str(tmp_path), part_bytes=1000, wish="two", held={})
    assert caught.value.code == "bundle-other-export"


def test_a_source_that_changed_is_named(tmp_path: Path) -> None:
    writer = BundleWriter(str(tmp_path), part_bytes=1000, wish="one", held={})
    with pytest.raises(KitError) as caught:
        writer.add([b"other"], sha256=sha256(b"bytes"), size_bytes=5, what="org/tiny: a.bin")
    writer.close()
    assert caught.value.code == "bundle-source-changed"
    assert json.loads((tmp_path / "export.journal").read_text().splitlines()[-1])["wish"] == "one"


def test_manifest_text_is_stable(tmp_path: Path) -> None:
    manifest = write_bundle(tmp_path)
    assert manifest_text(read_manifest(manifest_text(manifest))) == manifest_text(manifest)

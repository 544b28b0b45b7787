"""A sound manifest is read back as it was written; each unsound one is refused with what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle.planted import write_bundle

from kitctl.bundle.manifest import Manifest, digest_of, manifest_text, read_manifest, sums_text
from kitctl.errors import Exit, KitError

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return write_bundle(tmp_path_factory.mktemp("bundle"))


def test_a_manifest_is_read_back(manifest: Manifest) -> None:
    text = manifest_text(manifest)
    assert read_manifest(text) == manifest
    assert sums_text(manifest, digest_of(text)).splitlines()[0] == f"{digest_of(text)}  manifest.json"


def put(*path: Any) -> Change:
    """Set the value at a path: ``put("parts", 0, "path", "x")``."""

    def change(tree: dict[str, Any]) -> None:
        *way, last, value = path
        here: Any = tree
        for step in way:
            here = here[step]
        here[last] = value

    return change


PLANTED: dict[str, tuple[Change, str]] = {
    "schema": (put("schema", "kitctl.bundle/2"), "schema is 'kitctl.bundle/2'"),
    "unknown key": (put("more", 1), "unknown field `more`"),
    "a path that leaves the folder": (put("parts", 0, "path", "../../etc/cron.d/x"), "is not a plain path"),
    "an absolute path": (put("files", 0, "path", "/etc/passwd"), "is not a plain path"),
    "a backslash": (put("files", 0, "path", "kit\\..\\x"), "is not a plain path"),
    "a part in the manifest's place": (put("parts", 0, "path", "manifest.json"), "is not a plain path"),
    "a part named twice": (lambda t: t["parts"][1].update(path=t["parts"][0]["path"]), "is named twice"),
    "a stack that leaves its folder": (put("config", 0, "path", "stacks/../../x.yaml"), "is not a plain path"),
    "a stack in a strange place": (put("config", 0, "path", "models.lock"), "is no stack, part, overlay or add-on"),
    "a part of another size": (put("parts", 0, "size_bytes", 7), "bytes and objects"),
    "a gap": (put("objects", 1, "offset_bytes", 5), "starts at 5"),
    "a negative size": (put("objects", 0, "size_bytes", -1), "Expected `int` >= 0"),
    "an object twice": (lambda t: t["objects"].append(dict(t["objects"][0], offset_bytes=None)), "since is not"),
    "an object that is none": (put("config", 0, "sha256", "0" * 64), "none of the objects"),
    "no digest": (put("objects", 0, "sha256", "0"), "Expected `str` matching regex"),
    "a lock that is none": (put("models_lock", "version = 9"), "models_lock"),
    "a lock with a path out": (
        lambda t: t.update(models_lock=t["models_lock"].replace("weights/a.bin", "../../a.bin")),
        "models_lock",
    ),
    "a file that the lock does not name": (put("models", 0, "objects", {}), "the files that models_lock names"),
    "another file for the lock's": (
        lambda t: t["models"][0]["objects"].update({"weights/a.bin": t["config"][0]["sha256"]}),
        "is not the file that models_lock names",
    ),
    "a model twice": (lambda t: t["models"].append(t["models"][0]), "org/tiny is named twice"),
    "an image twice": (lambda t: t["images"].append(t["images"][0]), "is named twice"),
    "an image without its layer": (put("images", 0, "blobs", []), "lacks sha256:"),
    "a stack without image": (put("stacks", 0, "image", "other:1"), "has no image other:1"),
    "own model unknown": (put("own_models", ["x/y"]), "x/y is not in models_lock"),
    "a cache of another image": (put("caches", 0, "image_id", "sha256:" + "1" * 64), "is the cache of another image"),
    "a cache of other pins": (put("images", 0, "record", "pins_hash", "7" * 64), "is the cache of another image"),
    "a cache of another stage": (put("images", 0, "record", "stage", "cpu"), "is the cache of another image"),
    "a cache of other GPUs": (put("caches", 0, "arch", "90"), "is the cache of another image"),
    "a cache without image": (put("caches", 0, "image", "other:1"), "has no image other:1 with a record"),
    "an image without record": (put("images", 0, "record", None), "with a record"),
    "a volume of somebody else": (put("caches", 0, "volume", "postgres-data"), "is the cache of another image"),
    "a cache twice": (lambda t: t["caches"].append(t["caches"][0]), "is named twice"),
    "an empty cache": (put("caches", 0, "entries", []), "is empty"),
    "a kernel that is no object": (put("caches", 0, "entries", 0, "sha256", "0" * 64), "none of the objects"),
    "a cache path that leaves": (put("caches", 0, "entries", 0, "path", "../../etc/x"), "is not a plain path"),
    "an absolute cache path": (put("caches", 0, "entries", 0, "path", "/etc/x"), "is not a plain path"),
    "a cache path twice": (lambda t: t["caches"][0]["entries"].append(t["caches"][0]["entries"][0]), "named twice"),
    "a file below a link": (put("caches", 0, "entries", 2, "link", ".."), "does not lie in a folder"),
    "a link to the host": (put("caches", 0, "entries", 5, "link", "/etc/passwd"), "outside of the volume"),
    "a link that climbs out": (put("caches", 0, "entries", 5, "link", "../../../x"), "outside of the volume"),
    "a link over a link": (put("caches", 0, "entries", 5, "link", "latest/../../../x"), "outside of the volume"),
    "a link and file": (put("caches", 0, "entries", 0, "link", "ops"), "is a link and a file"),
    "a setuid bit": (put("caches", 0, "entries", 3, "mode", 0o4755), "Expected `int` <= 511"),
    "a device": (put("caches", 0, "entries", 3, "device", "c 1 3"), "unknown field `device`"),
    "an owner": (put("caches", 0, "entries", 3, "uid", 0), "unknown field `uid`"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_an_unsound_manifest_is_refused(manifest: Manifest, name: str) -> None:
    change, said = PLANTED[name]
    tree = json.loads(manifest_text(manifest))
    change(tree)
    with pytest.raises(KitError) as caught:
        read_manifest(json.dumps(tree).encode())
    assert said in caught.value.cause
    assert caught.value.exit_code in (Exit.FETCH, Exit.USAGE)


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"{" * 100_000, b'{"schema": "kitctl.bundle/1"}'])
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(KitError):
        read_manifest(text)


def test_the_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    import subprocess

    write_bundle(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0

"""Small bundles made without an engine: a model, an image of a few hundred bytes, a stack of the user's own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from kitctl.bundle.cache import BundleCache, CacheEntry
from kitctl.bundle.image_tree import ImageTree, read_image_tree
from kitctl.bundle.manifest import (
    BundleConfig,
    BundleImage,
    BundleModel,
    BundleStack,
    BundleTree,
    Manifest,
)
from kitctl.edge.bundle_kit import plain_files, write_manifest, write_readme
from kitctl.edge.bundle_writer import BundleWriter
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.models_lock import FileRole, LockedFile, LockState, ModelEntry, ModelsLock
from kitctl.kit.models_lock_text import write_models_lock

REFERENCE = "example/engine:1"
STACK = "summary: mine\nmodel: org/tiny\nimage: {stage: cpu}\n"
FILES = {
    "config.json": b'{"model_type": "qwen3"}',
    "weights/a.bin": bytes(range(256)) * 9,
    "empty.txt": b"",
    "same.bin": bytes(range(256)) * 9,
}
PINS = "5" * 64
VOLUME = f"kitctl-cache-{PINS[:12]}-gpu-120"
KERNELS = {
    "ops/b/kernel.so": b"\x7fELF" + bytes(range(200)) * 3,
    "ops/build.ninja": b"rule cuda\n",
    "none": b"",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(files: dict[str, bytes] = FILES) -> ModelEntry:
    """The lock entry of the model; its first file is locked by git's blob id."""
    rows = []
    for path, data in sorted(files.items()):
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() if path == "config.json" else None
        rows.append(
            LockedFile(
                path=path,
                size_bytes=len(data),
                role=FileRole.OTHER,
                sha256=None if git else sha256(data),
                git_sha1=git,
            )
        )
    return ModelEntry(repo="org/tiny", state=LockState.LOCKED, commit="a" * 40, files=tuple(rows))


def image_blobs(content: bytes = b"layer") -> tuple[ImageTree, dict[str, bytes]]:
    """An image of one layer: its tree, and its blobs by digest."""
    config = json.dumps({"architecture": "amd64", "os": "linux"}).encode()

    def row(kind: str, data: bytes) -> dict[str, object]:
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{sha256(data)}",
            "size": len(data),
        }

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": row("config.v1+json", config),
            "layers": [row("layer.v1.tar", content)],
        }
    ).encode()
    index = json.dumps({"manifests": [row("manifest.v1+json", manifest)]}).encode()
    blobs = {f"sha256:{sha256(data)}": data for data in (config, content, manifest)}
    return read_image_tree(index, blobs, known=frozenset(blobs)), blobs


def record(tree: ImageTree) -> ImageRecord:
    """The build record of the image."""
    return ImageRecord(
        image="sglang",
        release="0.5.16",
        stage="gpu",
        reference=REFERENCE,
        image_id=tree.target,
        pins_hash=PINS,
        inputs_hash="6" * 64,
        base="example/base:1",
        base_kind="kit",
        base_id=None,
        built_at="2026-11-29T00:00:00.000Z",
        seconds={},
        size_bytes=1000,
        layers=(),
    )


def cache(tree: ImageTree) -> BundleCache:
    """A cache volume of the image: folders, files, a link."""
    entries = (
        CacheEntry(path="none", mode=0o600, mtime_s=1_700_000_000, sha256=sha256(KERNELS["none"])),
        CacheEntry(path="ops", mode=0o750, mtime_s=1_700_000_003),
        CacheEntry(path="ops/b", mode=0o755, mtime_s=1_700_000_002),
        *(
            CacheEntry(path=path, mode=0o755, mtime_s=1_700_000_001, sha256=sha256(data))
            for path, data in KERNELS.items()
            if "/" in path
        ),
        CacheEntry(path="ops/b/latest", mode=0o777, mtime_s=1_600_000_000, link="../b/kernel.so"),
    )
    return BundleCache(volume=VOLUME, image=REFERENCE, image_id=tree.config, arch="120", entries=entries)


def write_bundle(folder: Path, *, part_bytes: int = 1000, held: dict[str, int] | None = None, since: str | None = None,
                 files: dict[str, bytes] = FILES, layer: bytes = b"layer") -> Manifest:  # fmt: skip
    """A whole bundle in ``folder``, written as the export writes it."""
    writer = BundleWriter(str(folder), part_bytes=part_bytes, wish="wish", held=held or {})
    tree, blobs = image_blobs(layer)
    for data in [*files.values(), STACK.encode(), *blobs.values(), *KERNELS.values()]:
        if not writer.has(sha256(data)):
            writer.add([data], sha256=sha256(data), size_bytes=len(data), what="planted")
    parts = writer.finish()
    write_readme(str(folder))
    manifest = Manifest(
        kitctl="0.1.0",
        made="2026-11-29T00:00:00.000Z",
        wish="wish",
        since=since,
        stacks=(BundleStack(name="mine", image=REFERENCE, models=("org/tiny",)),),
        images=(
            BundleImage(
                reference=REFERENCE,
                tree=BundleTree(
                    media_type=tree.media_type,
                    target=tree.target,
                    target_bytes=tree.target_bytes,
                    config=tree.config,
                    layers=tree.layers,
                ),
                blobs=tuple(sorted(blobs)),
                record=record(tree),
            ),
        ),
        caches=(cache(tree),),
        models=(BundleModel(repo="org/tiny", objects={path: sha256(data) for path, data in files.items()}),),
        models_lock=write_models_lock(ModelsLock(models=(entry(files),))),
        own_models=("org/tiny",),
        config=(BundleConfig(path="stacks/mine.yaml", sha256=sha256(STACK.encode())),),
        objects=writer.in_order(),
        parts=parts,
        files=plain_files(str(folder)),
    )
    write_manifest(str(folder), manifest)
    writer.remove_journal()
    writer.close()
    return manifest

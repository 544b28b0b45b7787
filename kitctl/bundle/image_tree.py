"""What is in a saved image (OCI image layout): which digest names it, and which blobs belong to it?

Docker's classic image store calls an image by the digest of its configuration, the containerd store by the digest of
its manifest or index. Both are in the saved image, so either engine's id can be held against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitctl.errors import Exit, KitError

BLOB_PREFIX = "blobs/sha256/"
INDEX_NAME = "index.json"
MAX_JSON_BYTES = 4 * 1024**2
"""Indexes, manifests and configurations are a few KB; what is longer is a layer."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}


@dataclass(frozen=True, kw_only=True)
class ImageTree:
    """One image. ``target``: digest of its manifest or index, ``config``: of its configuration, ``layers`` in order."""

    media_type: str
    target: str
    target_bytes: int
    config: str
    layers: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, str]:
        """What an engine may call the image: target (containerd store), config (classic store)."""
        return self.target, self.config


def read_image_tree(index: bytes, blobs: Mapping[str, bytes], *, known: frozenset[str]) -> ImageTree:
    """The image that ``index.json`` names. ``blobs``: small blobs by digest; ``known``: digests of all blobs.

    Raises KitError ``image-archive`` (exit 5) for an index that is no index or names what is not there.
    """
    rows = _object(index, INDEX_NAME).get("manifests")
    if not isinstance(rows, list) or len(rows) != 1:
        raise _bad(f"{INDEX_NAME} must name one image")
    target = _digest(rows[0], INDEX_NAME)
    size = rows[0].get("size")
    if target not in blobs or size != len(blobs[target]):
        raise _bad(f"{INDEX_NAME} names {target}, which is not there as stated")
    media_type = str(rows[0].get("mediaType"))
    manifest = _manifest_below(target, media_type, blobs, known)
    if manifest is None:
        raise _bad(f"{target} leads to no image with all its layers")
    return ImageTree(
        media_type=media_type,
        target=target,
        target_bytes=len(blobs[target]),
        config=_digest(manifest.get("config"), target),
        layers=tuple(_digest(layer, target) for layer in manifest["layers"]),
    )


def _manifest_below(
    digest: str, media_type: str, blobs: Mapping[str, bytes], known: frozenset[str]
) -> dict[str, Any] | None:
    """The first manifest at or below ``digest`` whose configuration and layers are all there."""
    if digest not in blobs:
        return None
    tree = _object(blobs[digest], digest)
    if media_type not in _INDEXES:
        parts = [tree.get("config"), *_rows(tree, "layers", digest)]
        whole = all(_digest(part, digest) in known for part in parts)
        return tree if whole and parts[1:] else None
    for row in _rows(tree, "manifests", digest):
        if (row.get("annotations") or {}).get("vnd.docker.reference.type"):
            continue
        inner = str(row.get("mediaType"))
        found = None if inner in _INDEXES else _manifest_below(_digest(row, digest), inner, blobs, known)
        if found is not None:
            return found
    return None


def load_index(tree: ImageTree, reference: str) -> bytes:
    """The ``index.json`` with which an engine loads the image under ``reference`` and no other name."""
    row = {
        "mediaType": tree.media_type,
        "digest": tree.target,
        "size": tree.target_bytes,
        "annotations": {
            "io.containerd.image.name": full_name(reference),
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        },
    }
    body = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [row],
    }
    return json.dumps(body).encode()


def load_manifest(tree: ImageTree, reference: str) -> bytes:
    """The ``manifest.json`` that a classic image store reads in place of the index."""
    row = {
        "Config": blob_name(tree.config),
        "RepoTags": [reference],
        "Layers": [blob_name(layer) for layer in tree.layers],
    }
    return json.dumps([row]).encode()


def blob_name(digest: str) -> str:
    """Where the image layout keeps a blob."""
    return BLOB_PREFIX + digest.removeprefix("sha256:")


def digest_of_blob(name: str) -> str | None:
    """The digest of the blob at ``name`` of an image layout; ``None`` for what is no blob."""
    digest = f"sha256:{name.removeprefix(BLOB_PREFIX)}"
    return digest if name.startswith(BLOB_PREFIX) and _DIGEST.fullmatch(digest) else None


def full_name(reference: str) -> str:
    """The reference with Docker's own registry and folder written out (``stub:1``: ``docker.io/library/stub:1``)."""
    first, slash, _ = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return reference
    return f"docker.io/{reference}" if slash else f"docker.io/library/{reference}"


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise _bad(f"{name} is not JSON: {broken}") from broken
    if not isinstance(tree, dict):
        raise _bad(f"{name} is no JSON object")
    return tree


def _rows(tree: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    rows = tree.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _bad(f"{name} has no list of {key}")
    return rows


def _digest(row: Any, name: str) -> str:
    digest = row.get("digest") if isinstance(row, dict) else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _bad(f"{name} names something without a sha256 digest")
    return digest


def _bad(cause: str) -> KitError:
    return KitError(
        "image-archive",
        f"the saved image is not whole: {cause}",
        remedy="an engine older than 25 saves in another layout: kitctl setup; else build or pull the image again",
        exit_code=Exit.FETCH,
    )

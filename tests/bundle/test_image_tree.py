"""Which digest names a saved image, and what is refused."""

import json
from typing import Any

import pytest
from bundle.planted import image_blobs, sha256

from kitctl.bundle.image_tree import (
    digest_of_blob,
    full_name,
    load_index,
    load_manifest,
    read_image_tree,
)
from kitctl.errors import KitError


def test_the_image_is_called_by_manifest_or_config() -> None:
    tree, blobs = image_blobs()
    assert set(tree.ids) < set(blobs)
    assert tree.layers == (f"sha256:{sha256(b'layer')}",)
    index = json.loads(load_index(tree, "kitctl/x:1"))
    assert index["manifests"][0]["digest"] == tree.target
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "docker.io/kitctl/x:1"
    (row,) = json.loads(load_manifest(tree, "kitctl/x:1"))
    assert row["RepoTags"] == ["kitctl/x:1"]


def test_an_index_of_several_platforms_is_named_by_itself() -> None:
    tree, blobs = image_blobs()
    absent = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": "sha256:" + "1" * 64,
        "size": 3,
    }
    note = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": tree.target,
        "size": 3,
        "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
    }
    here = {"mediaType": tree.media_type, "digest": tree.target, "size": tree.target_bytes}
    inner = json.dumps({"manifests": [note, absent, here]}).encode()
    digest = f"sha256:{sha256(inner)}"
    row = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest, "size": len(inner)}
    index = json.dumps({"manifests": [row]}).encode()
    found = read_image_tree(index, blobs | {digest: inner}, known=frozenset([*blobs, digest]))
    assert (found.target, found.config, found.layers) == (digest, tree.config, tree.layers)


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b"{}",
        b'{"manifests": []}',
        b'{"manifests": [{"digest": "sha256:xyz"}]}',
        b'{"manifests": [{"digest": "sha256:' + b"2" * 64 + b'", "size": 1}]}',
        b"[" * 100_000,
    ],
)
def test_an_index_that_names_no_image_is_refused(index: bytes) -> None:
    _, blobs = image_blobs()
    with pytest.raises(KitError) as caught:
        read_image_tree(index, blobs, known=frozenset(blobs))
    assert caught.value.code == "image-archive"


def test_an_image_without_all_its_layers_is_refused() -> None:
    tree, blobs = image_blobs()
    row: dict[str, Any] = {"mediaType": tree.media_type, "digest": tree.target, "size": tree.target_bytes}
    index = json.dumps({"manifests": [row]}).encode()
    with pytest.raises(KitError, match="no image with all its layers"):
        read_image_tree(index, blobs, known=frozenset(blobs) - {tree.layers[0]})


@pytest.mark.parametrize(
    "name",
    [
        "blobs/sha256/../../etc/passwd",
        "/blobs/sha256/" + "0" * 64,
        "blobs/sha256/" + "0" * 63,
        "index.json",
        "",
    ],
)
def test_only_blobs_are_blobs(name: str) -> None:
    assert digest_of_blob(name) is None


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("stub:1", "docker.io/library/stub:1"),
        ("kitctl/sglang:1", "docker.io/kitctl/sglang:1"),
        ("registry.example.org/a/b:1", "registry.example.org/a/b:1"),
        ("localhost:5000/a:1", "localhost:5000/a:1"),
        ("localhost/a:1", "localhost/a:1"),
    ],
)
def test_names_are_written_out_as_docker_does(reference: str, full: str) -> None:
    assert full_name(reference) == full

"""Put a bundle's images onto the engine under their own names, and keep their records for ``up``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kitctl.bundle.image_tree import INDEX_NAME, blob_name, load_index, load_manifest
from kitctl.bundle.manifest import BundleImage
from kitctl.edge.bundle_reader import Objects
from kitctl.edge.docker_client import engine_address
from kitctl.edge.docker_engine import engine_info, find_image, image_id
from kitctl.edge.image_archive import load_image
from kitctl.edge.image_store import save_bill, save_image_record
from kitctl.errors import Exit, KitError
from kitctl.kit.image_record import ImageRecord

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'


def is_on_engine(image: BundleImage) -> bool:
    """Whether the engine has the very image under its name: by manifest digest or, in a classic store, by config."""
    return image_id(image.reference) in image.tree.tree().ids


def engine_root() -> str | None:
    """Where the engine of this machine keeps images; ``None`` for an engine elsewhere."""
    if not engine_address().startswith("unix:"):
        return None
    root = engine_info().get("DockerRootDir")
    return str(root) if root else None


def adopt_image(image: BundleImage, objects: Objects, *, load: bool) -> None:
    """Load the image, see that the engine's id is the bundle's, and keep record and bill of materials.

    Raises KitError ``image-not-loaded`` (exit 6), ``image-not-recorded`` and ``bundle-damaged`` (exit 5).
    """
    if load:
        load_image(_files(image, objects))
        if not _has_layers(image.reference):
            load_image(_files(image, objects))
    found = image_id(image.reference)
    if found is None or found not in image.tree.tree().ids:
        raise KitError(
            "image-not-recorded",
            f"the engine took {image.reference} in as another image than the bundle names",
            evidence=(f"engine: {found}", *(f"bundle: {one}" for one in image.tree.tree().ids)),
            remedy=f"docker image rm {image.reference}, then kitctl bundle import again",
            exit_code=Exit.FETCH,
        )
    if image.record is not None:
        save_image_record(_as_known_here(image.record, found))
        if image.bill is not None:
            text = b"".join(objects.chunks(image.bill)).decode()
            save_bill(image.record, text.replace(image.record.image_id, found))


def _has_layers(reference: str) -> bool:
    """Whether the engine knows what the image is made of.

    While containerd clears what an earlier, broken load left, it may take a blob that this load had found there
    already (seen once, Docker Engine 28.5.2); the second load brings it again.
    """
    found = find_image(reference)
    return found is not None and bool((found.attrs.get("RootFS") or {}).get("Layers"))


def _as_known_here(record: ImageRecord, found: str) -> ImageRecord:
    """The record with the id that this engine's kind of store gives the same image."""
    smoke = record.smoke
    if smoke is not None and smoke.image_id == record.image_id:
        smoke = replace(smoke, image_id=found)
    return replace(record, image_id=found, smoke=smoke)


def _files(image: BundleImage, objects: Objects) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """The image layout: blobs first, then what names them, so that a cut-off stream names nothing."""
    for digest in image.blobs:
        sha256 = digest.removeprefix("sha256:")
        yield blob_name(digest), objects.size_bytes(sha256), objects.chunks(sha256)
    tree = image.tree.tree()
    texts = {
        "oci-layout": _LAYOUT,
        INDEX_NAME: load_index(tree, image.reference),
        "manifest.json": load_manifest(tree, image.reference),
    }
    for name, text in texts.items():
        yield name, len(text), iter([text])

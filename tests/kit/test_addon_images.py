"""Which images the add-ons run: read strictly, pinned line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import KIT

from kitctl.errors import Exit, KitError
from kitctl.kit.addon_images import AddonImage, read_addon_images, write_digest
from kitctl.kit.catalog import KitTexts, addon_images

DIGEST = f"sha256:{'a' * 64}"
TEXT = "# why\nproxy:\n  reference: docker.io/library/haproxy:3.0\n\nother:\n  reference: host:5000/x\n"


@pytest.mark.parametrize(
    ("reference", "exact"),
    [
        ("docker.io/library/haproxy:3.0", f"docker.io/library/haproxy@{DIGEST}"),
        ("host:5000/name:1", f"host:5000/name@{DIGEST}"),
        ("host:5000/name", f"host:5000/name@{DIGEST}"),
        (f"host/name@{DIGEST}", f"host/name@{DIGEST}"),
    ],
)
def test_the_engine_is_given_the_digest(reference: str, exact: str) -> None:
    image = AddonImage(reference=reference, digest=DIGEST)
    assert (image.exact, image.is_locked) == (exact, True)


def test_without_a_digest_the_tag_is_given_and_the_image_unlocked() -> None:
    image = AddonImage(reference="name:1")
    assert (image.exact, image.is_locked) == ("name:1", False)


def test_a_digest_is_written_and_renewed_and_no_other_line_changes() -> None:
    once = write_digest(TEXT, "proxy", DIGEST)
    assert once == TEXT.replace("haproxy:3.0\n", f"haproxy:3.0\n  digest: {DIGEST}\n")
    other = DIGEST.replace("a", "b")
    assert write_digest(once, "proxy", other) == once.replace(DIGEST, other)
    assert read_addon_images(once, source="x")["other"].is_locked is False


@given(st.sampled_from(["proxy", "other"]), st.text("0123456789abcdef", min_size=64, max_size=64))
def test_what_is_written_is_read_back(name: str, digits: str) -> None:
    found = read_addon_images(write_digest(TEXT, name, f"sha256:{digits}"), source="x")
    assert found[name].digest == f"sha256:{digits}"
    assert [one for one in found if found[one].is_locked] == [name]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a: 1\n", "mine.yaml: a: must be a mapping with reference"),
        ("a: {}\n", "mine.yaml: a: Object missing required field `reference`"),
        ("a: {reference: x, tag: y}\n", "mine.yaml: a: tag: unknown key"),
        (
            "a: {reference: x, digest: latest}\n",
            "mine.yaml: a.digest: must be sha256: and 64 hexadecimal digits",
        ),
    ],
)
def test_a_wrong_file_names_the_place(text: str, cause: str) -> None:
    with pytest.raises(KitError) as refused:
        read_addon_images(text, source="mine.yaml")
    assert (refused.value.cause, refused.value.exit_code) == (cause, Exit.USAGE)


def test_the_users_own_win_by_name() -> None:
    texts = KitTexts(kit=KIT.texts.kit, user={"addon-images.yaml": "haproxy: {reference: mine:1}\n"})
    assert addon_images(texts)["haproxy"].reference == "mine:1"


def test_every_image_that_an_overlay_of_the_kit_names_is_there() -> None:
    named = {name for overlay in KIT.overlays.values() for name in overlay.block.images.values()}
    assert named == set(KIT.addon_images)

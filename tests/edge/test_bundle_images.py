"""An image that lost a blob while it was loaded is loaded again."""

from types import SimpleNamespace

import pytest

from kitctl.edge import bundle_images


@pytest.mark.parametrize(("layers", "loads"), [([["a"]], 1), ([[], ["a"]], 2), ([None, ["a"]], 2)])
def test_a_load_without_layers_is_made_again(
    layers: list[list[str] | None], loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = SimpleNamespace(tree=lambda: SimpleNamespace(ids=("sha256:1",)))
    image = SimpleNamespace(reference="kitctl/x:1", tree=tree, record=None)
    states = iter(layers)
    done: list[object] = []
    monkeypatch.setattr(bundle_images, "_files", lambda *words: iter(()))
    monkeypatch.setattr(bundle_images, "load_image", done.append)
    monkeypatch.setattr(bundle_images, "image_id", lambda reference: "sha256:1")
    monkeypatch.setattr(
        bundle_images, "find_image", lambda _: SimpleNamespace(attrs={"RootFS": {"Layers": next(states)}})
    )
    bundle_images.adopt_image(image, None, load=True)  # type: ignore[arg-type]
    assert len(done) == loads

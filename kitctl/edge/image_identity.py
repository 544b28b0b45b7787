"""Is an image the same on two engines? Ids differ between image stores; layers and configuration do not."""

from __future__ import annotations

import hashlib
import json

from kitctl.edge.docker_engine import find_image

_DECISIVE = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")


def image_identity(reference: str) -> str | None:
    """One hash over layers and what starts in them; ``None`` when the image is not on this engine.

    Raises KitError ``engine-unreachable`` (exit 10).
    """
    image = find_image(reference)
    if image is None:
        return None
    config = image.attrs.get("Config") or {}
    body = [image.attrs["RootFS"]["Layers"], *(config.get(name) or None for name in _DECISIVE)]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()

"""Is an image the same on two engines? Ids differ between image stores; layers and configuration do not."""

from __future__ import annotations

import hashlib
import json

from kitctl.edge.docker_client import engine_calls

_DECISIVE = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")


def image_identity(reference: str) -> str | None:
    """One hash over layers and what starts in them; ``None`` when the image is not on this engine.

    Raises KitError ``engine-unreachable`` (exit 10).
    """
    import docker.errors

    try:
        with engine_calls() as client:
            seen = client.images.get(reference).attrs
    except docker.errors.NotFound:
        return None
    config = seen.get("Config") or {}
    body = [seen["RootFS"]["Layers"], *(config.get(name) or None for name in _DECISIVE)]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()

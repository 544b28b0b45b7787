"""What the container engine itself saw happen to a container."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kitctl.edge.docker_client import engine_calls
from kitctl.edge.docker_engine import epoch_s
from kitctl.errors import Exit, KitError
from kitctl.watch.ending import EngineEvent, latest_life


def container_events(container_id: str) -> tuple[EngineEvent, ...]:
    """Events of the container's latest life, oldest first; also of one that is gone already.

    The engine remembers its newest 256 events. Empty when it does not tell; raises KitError ``engine-unreachable``
    (exit 10).
    """
    import docker.errors

    try:
        with engine_calls() as client:
            until_s = epoch_s(client.info()["SystemTime"])
            found = client.events(
                since=0, until=f"{until_s:.6f}", filters={"type": "container", "container": container_id}
            )
            read = tuple(_event(json.loads(line)) for chunk in found for line in chunk.splitlines())
    except (docker.errors.NotFound, ValueError, KeyError, TypeError):
        return ()
    except KitError as failed:
        if failed.exit_code is Exit.UNREACHABLE:
            raise
        return ()
    return latest_life(read)


def _event(raw: dict[str, Any]) -> EngineEvent:
    said = raw["Actor"]["Attributes"]
    moment = datetime.fromtimestamp(raw["timeNano"] / 1e9, UTC).isoformat(timespec="milliseconds")
    return EngineEvent(
        action=str(raw["Action"]),
        at=moment.replace("+00:00", "Z"),
        signal=int(said["signal"]) if "signal" in said else None,
        exit_code=int(said["exitCode"]) if "exitCode" in said else None,
    )

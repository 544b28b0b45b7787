"""What does a container of a server over several hosts need: the host's own network, and nothing of one host alone?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kitctl.plan.types import Plan

HOST_NETWORK = "host"
_HEALTH = "import urllib.request as r; r.urlopen('http://{host}:{port}/health', timeout=22)"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def across_hosts(overlay: str, plan: Plan) -> str:
    """An overlay's text for a rank: without what is right on one host alone, which compose's merging would keep."""
    if plan.rank is None:
        return overlay
    names = "|".join(map(re.escape, plan.rank.not_across))
    return re.sub(rf"^ +(?:{names}): .*\n", "", overlay, flags=re.MULTILINE)


def on_host_network(service: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The engine's service for a rank; for a plan of one host as it was.

    Ranks meet on ports that they choose while they start, which a bridge would hide. The engine binds on the host where
    the plan says, and the health check asks there.
    """
    if plan.rank is None:
        return dict(service)
    bind = plan.published.bind
    host = _ANY.get(bind, f"[{bind}]" if ":" in bind else bind)
    test = ["CMD", "python3", "-c", _HEALTH.format(host=host, port=plan.published.port)]
    kept = {name: value for name, value in service.items() if name != "ports"}
    return kept | {
        "network_mode": HOST_NETWORK,
        "healthcheck": {**service["healthcheck"], "test": test},
    }


def network_wanted(plan: Plan) -> dict[str, Any]:
    """What ``docker compose config`` must show of a rank's network; nothing for a plan of one host."""
    if plan.rank is None:
        return {}
    return {"ports": [], "network": HOST_NETWORK, "of one host alone": []}


def network_merged(service: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """What it does show."""
    if plan.rank is None:
        return {}
    environment = service.get("environment") or {}
    left = [name for name in plan.rank.not_across if name in environment and name not in plan.environment]
    return {"network": service.get("network_mode"), "of one host alone": left}

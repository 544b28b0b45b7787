"""Which network device leads to an address? Read from iproute2's JSON."""

from __future__ import annotations

import json


def read_route(text: str) -> str | None:
    """The device in ``ip -j route get ADDR``; ``None`` when it names none or says that the address is this host's."""
    try:
        routes = json.loads(text)
        route = routes[0]
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    device = route.get("dev")
    return device if isinstance(device, str) and device != "lo" and route.get("type") != "local" else None


def read_holder(text: str, address: str) -> str | None:
    """The device that holds ``address``, in ``ip -j address``; ``None`` when none does."""
    try:
        links = json.loads(text)
    except ValueError:
        return None
    for link in links:
        if any(one.get("local") == address for one in link.get("addr_info", [])):
            return str(link["ifname"])
    return None

"""Do PCIe bridges above the GPUs redirect their peer traffic? Reads ``lspci -D -vvv``.

ACS request or completion redirect on a root port or switch port sends P2P through the root complex, where it
is slow or hangs; the P2P table of nvidia-smi still says OK (NVIDIA/nccl#1999).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DEVICE = re.compile(r"^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2}\.[0-7]) ")
_BUSES = re.compile(r"Bus: primary=[0-9a-f]+, secondary=([0-9a-f]+), subordinate=([0-9a-f]+)")
_REDIRECT = re.compile(r"ACSCtl:.*(ReqRedir|CmpltRedir)\+")


@dataclass(frozen=True, kw_only=True)
class _Bridge:
    address: str
    domain: int
    buses: range
    redirects: bool


def read_acs_redirects(text: str, gpu_bus_ids: Iterable[str]) -> tuple[str, ...] | None:
    """Addresses of bridges that redirect and have a GPU below them.

    ``None`` when ``text`` shows no ACS control at all: without root, lspci prints ``<access denied>``.
    """
    blocks = [block for block in re.split(r"\n(?=[0-9a-fA-F]{4}:)", text) if _DEVICE.match(block)]
    if not blocks or ("ACSCtl" not in text and "access denied" in text):
        return None
    places = [_place(bus_id) for bus_id in gpu_bus_ids]
    bridges = [bridge for bridge in map(_bridge, blocks) if bridge is not None and bridge.redirects]
    return tuple(b.address for b in bridges if any(d == b.domain and bus in b.buses for d, bus in places))


def has_redirect(text: str) -> bool:
    """Whether any ``ACSCtl`` line in ``text`` has request or completion redirect on."""
    return _REDIRECT.search(text) is not None


def _bridge(block: str) -> _Bridge | None:
    named, buses = _DEVICE.match(block), _BUSES.search(block)
    if named is None or buses is None:
        return None
    return _Bridge(
        address=f"{named.group(1)}:{named.group(2)}:{named.group(3)}",
        domain=int(named.group(1), 16),
        buses=range(int(buses.group(1), 16), int(buses.group(2), 16) + 1),
        redirects=has_redirect(block),
    )


def _place(bus_id: str) -> tuple[int, int]:
    domain, bus, _ = bus_id.split(":")
    return int(domain, 16), int(bus, 16)

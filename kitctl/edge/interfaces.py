"""Ask this host which network device leads to another."""

from __future__ import annotations

from kitctl.edge.process import Finished, run_process
from kitctl.errors import Exit, KitError
from kitctl.host.read_route import read_holder, read_route

_TIMEOUT_S = 5.0


def interface_towards(address: str, *, holds: bool) -> str:
    """The device that leads to ``address``, or with ``holds`` the one of this host that has it.

    Raises KitError ``address-not-here`` or ``no-route`` (exit 3).
    """
    done = run_process(
        ("ip", "-j", "address") if holds else ("ip", "-j", "route", "get", address), timeout_s=_TIMEOUT_S
    )
    found = read_holder(done.stdout, address) if holds else read_route(done.stdout)
    if found is None:
        raise _address_not_here(address) if holds else _no_route(address, done)
    return found


def _address_not_here(address: str) -> KitError:
    return KitError(
        "address-not-here",
        f"rank 0 is to be met at {address}, and no network device of this host has that address",
        evidence=("ip address shows those there are",),
        remedy="name one of this host's that the others reach: --dist-init-addr ADDR:PORT",
        exit_code=Exit.REFUSED,
    )


def _no_route(address: str, done: Finished) -> KitError:
    return KitError(
        "no-route",
        f"no network device of this host leads to rank 0 at {address}",
        evidence=(done.stderr.strip() or done.failure or "the route stays on this host",),
        remedy="give the hosts a network in common, or name the device with --interface",
        exit_code=Exit.REFUSED,
    )

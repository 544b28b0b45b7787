"""Command-line values that are checked as they are read; argparse names the option and exits 2."""

from __future__ import annotations

import argparse
import math


def port_number(text: str) -> int:
    """A TCP port, 1 to 65535."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return number


def seconds(text: str) -> float:
    """A time to wait: zero or more, finite."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def count(text: str) -> int:
    """Zero or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: 0 or more")
    return int(text)


def node_count(text: str) -> int:
    """Nodes, or GPUs of one: 1 to 1024."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of nodes or GPUs: 1 to 1024")
    return number


def size(text: str) -> int:
    """Bytes, with k, M, G or T for their thousands: at least 1M."""
    number, unit = text[:-1], text[-1:].upper()
    powers = {"K": 1, "M": 2, "G": 3, "T": 4}
    if unit not in powers:
        number, unit = text, ""
    amount = int(number) * 1000 ** powers.get(unit, 0) if number.isascii() and number.isdigit() else 0
    if amount < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of 1M or more, as 4G or 700M")
    return amount


def ip_address(text: str) -> str:
    """An address to listen on, as numbers: a name may mean another address tomorrow."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address, as 127.0.0.1 or ::1") from None

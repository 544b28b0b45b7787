"""Command-line values that are checked as they are read; argparse names the option and exits 2."""

from __future__ import annotations

import argparse
import math

from kitctl.kit.bounds import LEAST_SECONDS, MOST_SECONDS, MOST_TEMPERATURE

MOST_STREAMS = 65_536
"""A stream holds a connection of its own, and one address has no more ports than this."""
LEAST_RATE, MOST_RATE = 0.001, 100_000.0
"""At the least rate, five requests take more than an hour."""
LEAST_SCALE, MOST_SCALE = 0.001, 1000
LEAST_NUMBER, MOST_NUMBER = 0.001, 1_000_000_000
"""Milliseconds or tokens: what no request takes less of, and none more."""
MOST_WHOLE = 10_000_000
MOST_REPEATS = 1000


def filled(text: str) -> str:
    """Any text but none: the empty value of a shell's unset variable would take a gate or an output away unseen."""
    if not text:
        raise argparse.ArgumentTypeError("'' is empty: give a value, or leave it out")
    return text


def one_line(text: str) -> str:
    """A text that a table can show: one line, something in it, no control characters."""
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no line of printable characters")
    return text


def port_number(text: str) -> int:
    """A TCP port, 1 to 65535."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return number


def _finite(text: str) -> float:
    """The number, NaN for what is none or is endless."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _whole(text: str) -> int:
    """The whole number, -1 for what is none or is longer than any that a command takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


def _number(text: str, least: float, most: float, what: str) -> float:
    """The number within its bounds; ``what`` ends as they are told, with ``:`` or ``from``."""
    number = _finite(text)
    if not least <= number <= most:  # never true of NaN
        raise argparse.ArgumentTypeError(f"{text!r} is no {what} {least} to {most}")
    return number


def seconds(text: str) -> float:
    """A time to wait: zero or more, finite."""
    return _number(text, 0, MOST_SECONDS, "number of seconds:")


def some_seconds(text: str) -> float:
    """A time above zero: a pause that must be one, or the silence after which one gives up."""
    return _number(text, LEAST_SECONDS, MOST_SECONDS, "number of seconds:")


def positive_number(text: str) -> float:
    """A number above 0, neither too small nor too large to be told."""
    return _number(text, LEAST_NUMBER, MOST_NUMBER, "number from")


def scale(text: str) -> float:
    """A factor that stretches time limits: a thousandth to a thousand."""
    return _number(text, LEAST_SCALE, MOST_SCALE, "factor:")


def temperature(text: str) -> float:
    """A sampling temperature: zero or more, and none that makes every token as likely as another."""
    return _number(text, 0, MOST_TEMPERATURE, "temperature:")


def share(text: str) -> float:
    """A share: 0 to 1."""
    return _number(text, 0, 1, "share:")


def positive(text: str) -> int:
    """A whole number above 0."""
    return _bounded(text, MOST_WHOLE)


def streams(text: str) -> int:
    """How many requests are on their way at a time."""
    return _bounded(text, MOST_STREAMS)


def repeats(text: str) -> int:
    """How often one thing is measured."""
    return _bounded(text, MOST_REPEATS)


def _bounded(text: str, most: int) -> int:
    number = _whole(text)
    if not 1 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {most}")
    return number


def stream_counts(text: str) -> tuple[int, ...]:
    """``1,8,32`` as numbers of streams, each once, in the order given."""
    found = tuple(dict.fromkeys(_whole(word.strip()) for word in text.split(",") if word.strip()))
    if not found or min(found) < 1 or max(found) > MOST_STREAMS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers from 1 to {MOST_STREAMS}, as 1,8,32"
        )
    return found


def rates(text: str) -> tuple[float, ...]:
    """``0.5,2`` as requests a second."""
    found = tuple(_finite(word) for word in text.split(",") if word.strip())
    if not found or not all(LEAST_RATE <= rate <= MOST_RATE for rate in found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of rates from {LEAST_RATE} to {MOST_RATE:.0f}, as 0.5,2"
        )
    return found


def count(text: str) -> int:
    """Zero or more."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: 0 or more")
    return number


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

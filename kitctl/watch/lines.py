"""What does one raw log line say, once everything that wraps it is taken off?

A line may carry colours, a name from ``docker compose logs``, a time from ``docker logs -t`` or the journal,
several states of a progress bar parted by carriage returns, and an exception glued to the bar's end; records of
the json-file log driver, torchrun's and other engines' worker prefixes are taken off too. The engine's own prefix
is ``[YYYY-mm-dd HH:MM:SS DPn PPn TPn EPn]``, each part optional (SGLang 0.5.11-0.5.23).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][0-9A-Za-z]")
_BAR_END = re.compile(r"((?:/s|s/it)(?:, [^\]\[]*)?\])(?=[^\n]*\S)")
_BAR = re.compile(r"\d+%\|.*\| *\d+/\d+ \[|\d+% Completed \| \d+/\d+ \[")
_STAMP = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_GLUED_STAMP = re.compile(rf"(?<=\S)(?=\[{_STAMP}[^\]]*\] )")
_COMPOSE = re.compile(r"^[A-Za-z][\w.-]*\s*\| ?")
_DOCKER_TIME = re.compile(rf"^({_STAMP})(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?")
_JOURNAL = re.compile(
    rf"^(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_STAMP}(?:Z|[+-]\d\d:?\d\d)?) \S+ [\w.@/-]+\[\d+\]: "
)
_JSON_FILE = re.compile(r'^\{"log":"')
_WORKER = re.compile(
    r"^\((?P<name>\w+) pid=\d+\) (?:(?:INFO|ERROR|WARNING|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]+\] ?)?"
)
_WORKER_RANK = re.compile(r"(?:DP|PP|TP|EP)\d+")
_TORCHRUN = re.compile(r"^\[(?P<name>rank\d+)\]: ?")
_ENGINE = re.compile(rf"^\[(?P<stamp>{_STAMP})?(?P<rank>(?: ?[A-Z][A-Z_]*\d+)*)\] ?")


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One message: ``rank`` as the engine names it (``TP0 EP0``), ``stamp_s`` its time, ``None`` if it has none.

    ``stamp_s`` is in seconds since the epoch with the log's clock read as UTC: only differences mean something.
    """

    text: str
    rank: str | None = None
    stamp_s: float | None = None
    is_bar: bool = False


def split_line(raw: str) -> tuple[LogLine, ...]:
    """The messages in one physical line, in order; empty for a blank one."""
    body, stamp_s = _unwrap(_ANSI.sub("", _from_json(raw)))
    parts = (part for piece in re.split(r"[\r\n]+", body) for part in _unglue(piece))
    return tuple(_read(part, stamp_s) for part in parts if part.strip())


def _from_json(raw: str) -> str:
    """The line inside a record of the container engine's json-file log; any other line as it is."""
    if not _JSON_FILE.match(raw):
        return raw
    try:
        return str(json.loads(raw)["log"])
    except (ValueError, KeyError, TypeError):
        return raw


def _unwrap(raw: str) -> tuple[str, float | None]:
    body = _JOURNAL.sub("", _COMPOSE.sub("", raw.lstrip("\r")))
    timed = _DOCKER_TIME.match(body)
    if timed is None:
        return body, None
    return _COMPOSE.sub("", body[timed.end() :]), _seconds(timed[1])


def _unglue(piece: str) -> Iterator[str]:
    for part in _BAR_END.sub("\\1\n", piece).split("\n"):
        yield from _GLUED_STAMP.split(part)


def _read(part: str, outer_stamp_s: float | None) -> LogLine:
    worker = _WORKER.match(part) or _TORCHRUN.match(part)
    if worker is not None:
        rank = " ".join(_WORKER_RANK.findall(worker["name"])) or worker["name"]
        return LogLine(text=part[worker.end() :].rstrip(), rank=rank, stamp_s=outer_stamp_s)
    head = _ENGINE.match(part)
    if head is None or not (head["stamp"] or head["rank"]):
        return LogLine(text=part.rstrip(), stamp_s=outer_stamp_s, is_bar=_BAR.search(part) is not None)
    stamp_s = _seconds(head["stamp"]) if head["stamp"] else outer_stamp_s
    return LogLine(text=part[head.end() :].rstrip(), rank=head["rank"].strip() or None, stamp_s=stamp_s)


def _seconds(stamp: str) -> float | None:
    whole, _, fraction = stamp.replace("T", " ").replace(",", ".").partition(".")
    try:
        moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)

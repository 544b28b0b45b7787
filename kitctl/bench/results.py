"""How are results kept? JSON Lines: one head that carries the run, then a line a repeat, then a line a point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kitctl.bench.failed import too_many_failed
from kitctl.bench.figures import wrong_figure, wrong_phases
from kitctl.bench.measure import Repeat
from kitctl.bench.points import Point, point_of
from kitctl.bench.workload import Endpoint, Spec, Step
from kitctl.errors import Exit, KitError
from kitctl.kit.json_text import decode_json

RUN_SCHEMA = "kitctl.bench.run/1"
REPEAT_SCHEMA = "kitctl.bench.repeat/1"
POINT_SCHEMA = "kitctl.bench.point/1"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured: the run's id and time, the server's own settings (an allow-list), the stack's run record.

    ``kind``: ``measured`` by kitctl, ``imported`` from another tool's file, ``published`` by others without a record.
    """

    label: str
    kind: str = "measured"
    run_id: str | None = None
    started_at: str | None = None
    kitctl_version: str | None = None
    url: str | None = None
    spec: Spec | None = None
    spec_hash: str | None = None
    served_models: tuple[str, ...] | None = None
    server: dict[str, Any] | None = None
    run_record: dict[str, Any] | None = None
    source: str | None = None
    schema: str = RUN_SCHEMA


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """One configuration's results: its head, its points in order of load, and the repeats behind them."""

    head: Head
    points: tuple[Point, ...]
    repeats: tuple[Repeat, ...] = ()


def pick_settings(server_info: Mapping[str, Any] | None, allowed: Sequence[str]) -> dict[str, Any] | None:
    """The settings of ``/server_info`` that may be kept; it holds API keys, so only named ones are."""
    if server_info is None:
        return None
    return {key: server_info[key] for key in allowed if server_info.get(key) is not None}


def line_of(item: Head | Repeat | Point) -> str:
    """One line of a result file: strict JSON."""
    return msgspec.json.encode(item).decode()


def read_results(name: str, text: str) -> tuple[ResultFile, ...]:
    """The results in a kitctl file, one for each head line. A last line cut short by an interrupt is left out.

    Raises KitError ``bad-result`` (exit 2) that names the line, also for a figure that nothing can have measured.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    found: list[tuple[Head, list[Repeat], list[Point]]] = []
    for number, line in lines:
        try:
            wrong = _take(found, line)
        except (msgspec.DecodeError, AttributeError, IndexError) as broken:
            is_last = number == lines[-1][0]
            if is_last and found:
                break
            why = "it stands before any head line" if isinstance(broken, IndexError) else broken
            raise _bad(name, f"line {number}: {why}") from broken
        if wrong is not None:
            raise _bad(name, f"line {number}: {wrong}")
    if not found:
        raise _bad(name, "it has no head line")
    return tuple(_result(*parts) for parts in found)


def _take(found: list[tuple[Head, list[Repeat], list[Point]]], line: str) -> str | None:
    """Put the line where it belongs; what is wrong with its figures, if anything is."""
    tree = decode_json(line, dict)
    schema = tree.get("schema")
    if schema == RUN_SCHEMA:
        found.append((decode_json(line, Head), [], []))
        return wrong_phases(found[-1][0].run_record)
    if schema not in (REPEAT_SCHEMA, POINT_SCHEMA):
        return (
            None
            if found
            else f"its head has the schema {str(schema)[:60]}, and this kitctl reads {RUN_SCHEMA}"
        )
    if (wrong := wrong_figure(tree)) is not None:
        return wrong
    if schema == REPEAT_SCHEMA:
        found[-1][1].append(decode_json(line, Repeat))
    else:
        found[-1][2].append(decode_json(line, Point))
    return None


def _result(head: Head, repeats: list[Repeat], points: list[Point]) -> ResultFile:
    """A point whose repeats are there is made of them; of another that stands twice the last one counts."""
    last = {(point.concurrency, point.request_rate): point for point in points}
    last |= {
        (group[0].concurrency, group[0].request_rate): pooled(head, group) for group in by_point(repeats)
    }
    return ResultFile(head=head, points=tuple(sorted(last.values(), key=_load_order)), repeats=tuple(repeats))


def pooled(head: Head, repeats: Sequence[Repeat]) -> Point:
    """A point of its repeats, judged as the head says that they were taken."""
    model = head.spec.model if head.spec is not None else ""
    is_chat = head.spec is not None and head.spec.endpoint is Endpoint.CHAT
    goal = head.spec.goal if head.spec is not None else None
    return point_of(
        repeats,
        model=model,
        served=head.served_models,
        is_chat=is_chat,
        goal=goal,
        server=head.server,
        dataset=head.spec.dataset if head.spec is not None else None,
    )


def _load_order(point: Point) -> tuple[int, float]:
    return (0, float(point.concurrency)) if point.concurrency is not None else (1, point.request_rate or 0.0)


def _bad(name: str, why: str) -> KitError:
    return KitError(
        "bad-result",
        f"{name} is not a result file: {why}",
        remedy="give a file written by kitctl bench, or bench_serving's JSON Lines",
        exit_code=Exit.USAGE,
    )


def missing_steps(steps: Iterable[Step], repeats: Iterable[Repeat]) -> tuple[Step, ...]:
    """The steps that an interrupted sweep has not done yet, or in which too many requests failed."""
    done = {
        (r.concurrency, r.request_rate, r.repeat)
        for r in repeats
        if too_many_failed(r.error_kinds, r.requests) is None
    }
    return tuple(s for s in steps if (s.concurrency, s.request_rate, s.repeat) not in done)


def by_point(repeats: Iterable[Repeat]) -> tuple[tuple[Repeat, ...], ...]:
    """Repeats grouped by point, in order of load. One that was taken again counts as it was taken last."""
    groups: dict[tuple[int | None, float | None], dict[int, Repeat]] = {}
    for repeat in repeats:
        groups.setdefault((repeat.concurrency, repeat.request_rate), {})[repeat.repeat] = repeat
    order = sorted(groups, key=lambda key: (key[0] is None, key[0] or 0, key[1] or 0.0))
    return tuple(tuple(groups[key].values()) for key in order)


def named_apart(results: Sequence[tuple[str, ResultFile]]) -> tuple[ResultFile, ...]:
    """Results whose labels differ: one that recurs is followed by its file's name, and by a number if that recurs."""
    labels = [result.head.label for _, result in results]
    seen: dict[str, int] = {}
    apart = []
    for name, result in results:
        label = result.head.label
        if labels.count(label) > 1:
            label = f"{label} ({name.rsplit('/', 1)[-1].removesuffix('.jsonl')})"
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            label = f"{label} #{seen[label]}"
        head = msgspec.structs.replace(result.head, label=label)
        apart.append(ResultFile(head=head, points=result.points, repeats=result.repeats))
    return tuple(apart)

"""Keep what the chaos suite measured, and make the table of it (docs/faults.md)."""

import json
from pathlib import Path

from chaos.faults import BY_NAME, FAULTS, Fault

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
NOTES = HERE / "notes.md"
TABLE = HERE.parent.parent / "docs" / "faults.md"
GROUPS = (
    ("While it starts", "A stub server replays the engine's real lines.", FAULTS.starts),
    (
        "While it serves",
        "The stub server again; `kitctl watch --every 1 --patience 2` looks on.",
        FAULTS.serving,
    ),
    ("From outside", "What happens to the container or the host.", FAULTS.outside),
    (
        "On a GPU host",
        "An engine of its own on an imitated GPU host, with the stub server; for a verdict that comes with the first "
        "answer the time is that of the whole start.",
        FAULTS.gpus,
    ),
    ("The real engine", "SGLang 0.5.16 on its CPU engine in the kit's image.", FAULTS.engine),
)


def keep(fault: Fault, *, verdict: str, seconds: float | None) -> None:
    """Note one measurement; the file is sorted, so that only what changed differs."""
    known = json.loads(MEASURED.read_text()) if MEASURED.is_file() else {}
    known[fault.name] = {"verdict": verdict, "seconds": None if seconds is None else round(seconds, 2)}
    MEASURED.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def settle(name: str, seconds: float, *, accept: bool) -> None:
    """Hold the measured time against the fault's bound, and keep it."""
    assert seconds <= BY_NAME[name].bound_s + 0.1, seconds
    if accept:
        keep_named(name, seconds=seconds)


def keep_named(name: str, *, seconds: float) -> None:
    """Note one measurement of a fault by its name."""
    keep(BY_NAME[name], verdict=BY_NAME[name].verdict, seconds=seconds)


def _time(seconds: float | None) -> str:
    """A fatal line may be judged before the process has ended; where nothing is to happen there is no time."""
    if seconds is None:
        return "-"
    return f"{seconds:.2f}" if seconds > 0 else "before its end"


def table() -> str:
    """docs/faults.md."""
    known = json.loads(MEASURED.read_text())
    lines = [
        "# What kitctl was put through",
        "",
        "Generated from `tests/chaos` (`pytest tests/chaos -m docker --accept` measures again). Time is from the",
        "event, as the server itself logged it, to the verdict on kitctl's output. After each fault nothing was left",
        "over: no container, network, port or half-written file. Machine: 2 shared CPU cores, Docker Engine",
        "28.5.2, no GPU.",
    ]
    for title, how, faults in GROUPS:
        lines += [
            "",
            f"## {title}",
            "",
            how,
            "",
            "| fault | verdict | time, s | bound, s |",
            "|---|---|---|---|",
        ]
        for fault in faults:
            seen = known.get(fault.name)
            time = _time(seen["seconds"]) if seen else "not measured"
            lines.append(f"| {fault.does} | {fault.verdict} | {time} | {fault.bound_s:g} |")
    lines += ["", NOTES.read_text().rstrip()]
    return "\n".join(lines) + "\n"

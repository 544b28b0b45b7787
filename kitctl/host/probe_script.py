"""How are many probes asked through one connection? A POSIX script that runs them side by side, and its reader.

The script goes to ``sh -s`` in a container, so that one start answers all, on the host meant.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from kitctl.host.probes import TOOL_MISSING, Answer, Probe

_TIMED_OUT = 124


def probe_script(probes: Sequence[Probe], *, mark: str) -> str:
    """The script. ``mark`` (letters and digits, drawn anew each time) fences the answers off from their text."""
    lines = [
        "d=$(mktemp -d) || exit 1",
        "trap 'rm -rf \"$d\"' EXIT",
        "LC_ALL=C; export LC_ALL",
        'run() { i=$1; s=$2; shift 2; if command -v "$1" >/dev/null 2>&1; then'
        ' if command -v timeout >/dev/null 2>&1; then timeout "$s" "$@"; else "$@"; fi;'
        ' else echo "$1: not found" >&2; (exit 127); fi >"$d/$i.o" 2>"$d/$i.e" </dev/null;'
        ' echo $? >"$d/$i.c"; }',
    ]
    for at, probe in enumerate(probes):
        lines.append(f"run {at} {probe.timeout_s:g} {shlex.join(probe.argv)} &")
    lines += [
        "wait",
        f"i=0; while [ $i -lt {len(probes)} ]; do",
        f'echo; echo "{mark} $i $(cat "$d/$i.c")"; cat "$d/$i.o"',
        f'echo; echo "{mark} err"; cat "$d/$i.e"; i=$((i + 1))',
        "done",
        f'echo; echo "{mark} end"',
    ]
    return "\n".join(lines) + "\n"


def read_probe_script(text: str, probes: Sequence[Probe], *, mark: str, failure: str) -> dict[str, Answer]:
    """Each probe's answer by name; those that the text lacks are answers with ``failure``."""
    found: dict[str, Answer] = {}
    pattern = rf"\n{mark} (\d+) (\d*)\n(.*?)\n{mark} err\n(.*?)(?=\n{mark} )"
    for number, code, out, err in re.findall(pattern, f"\n{text}", re.DOTALL):
        probe = probes[int(number)]
        found[probe.name] = _answer(probe, int(code or 1), out, err)
    missing = [probe for probe in probes if probe.name not in found]
    return found | {p.name: Answer(argv=p.argv, exit_code=None, failure=failure) for p in missing}


def _answer(probe: Probe, code: int, out: str, err: str) -> Answer:
    if code == _TIMED_OUT:
        late = f"no answer within {probe.timeout_s:g} s"
        return Answer(argv=probe.argv, exit_code=None, stdout=out, stderr=err, failure=late)
    if code == 127 and err.rstrip().endswith(": not found"):
        return Answer(argv=probe.argv, exit_code=None, stderr=err, failure=f"{probe.argv[0]} {TOOL_MISSING}")
    return Answer(argv=probe.argv, exit_code=code, stdout=out, stderr=err)

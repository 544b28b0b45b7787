"""Which of the builder's many lines are worth a person's eye, one line an event?"""

from __future__ import annotations

import re
from collections.abc import Sequence

_STEP = re.compile(r"^#(?P<number>\d+) \[(?P<name>[^\]]+)\] ?(?P<what>.*)$")
_DONE = re.compile(r"^#(?P<number>\d+) (?P<how>DONE|CACHED|ERROR)(?: (?P<time>[\d.]+s))?")
_EXPORT = re.compile(r"^#\d+ (?P<what>(?:exporting layers|unpacking to \S+) [\d.]+s done)$")
_KERNEL = re.compile(r"^#\d+ [\d.]+ (?P<what>(?:compiled|kept from before:|FAILED) .*)$")
_NOISE = re.compile(r"--(?:mount|network|chmod)=\S+\s*")


class BuildEvents:
    """Turns the lines of ``buildx build --progress=plain`` into events; knows which step a number stands for."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def event_of(self, line: str) -> str | None:
        """The event that ``line`` tells of, or ``None``: a step that ended, a kernel, or the export."""
        step = _STEP.match(line)
        if step and step["name"] != "internal":
            words = _NOISE.sub("", step["what"]).strip()
            self._names.setdefault(step["number"], f"{step['name']} {words[:70]}".strip())
            return None
        done = _DONE.match(line)
        if done and done["number"] in self._names:
            return f"  {done['how'].lower():6} {done['time'] or '':>7}  {self._names[done['number']]}"
        told = _EXPORT.match(line) or _KERNEL.match(line)
        return f"  {told['what']}" if told else None


def failure_lines(said: Sequence[str]) -> tuple[str, ...]:
    """Of the builder's last lines those that say what failed: the end of the step's own output, then the error.

    The builder repeats the step's output between two rules (``------``) and shows the Dockerfile's lines after it.
    """
    rules = [at for at, line in enumerate(said) if re.fullmatch(r"-{6}", line)]
    own = [line for line in said[rules[-2] + 1 : rules[-1]] if line.strip()] if len(rules) > 1 else []
    errors = [line for line in said if line.startswith("ERROR: ")]
    rest = [line for line in said if line.strip()]
    return tuple([*own[-6:], *errors[-1:]]) or tuple(rest[-8:])

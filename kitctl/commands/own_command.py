"""The command that the user typed, as a remedy says it again."""

from __future__ import annotations

import argparse
import shlex

_OUTPUT_WORDS = ("--json", "--quiet", "-q")


def own_command(args: argparse.Namespace, *more: str) -> str:
    """The user's own command line with ``more`` behind its own words, quoted for a shell."""
    given = getattr(args, "words", ("up", args.stack))
    words = [word for word in given if word not in _OUTPUT_WORDS]
    flags = ["--", *args.engine_flags] if getattr(args, "engine_flags", ()) else []
    return shlex.join(["kitctl", *words, *more, *flags])

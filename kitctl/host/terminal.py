"""Which part of a captured text is meant for a terminal and not for a reader?"""

from __future__ import annotations

import re

_CODES = re.compile(
    r"(?:\x1b|\u241b|\^\[|\\e|\\033|\\x1b)\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[@-_]|\[(?:0|4|1|22|24)m"
)


def without_terminal_codes(text: str) -> str:
    """``text`` without escape sequences (nvidia-smi underlines table headers even into a file), BOM and CR.

    Sequences whose escape character was lost or spelled out on the way (``[4m``, ``^[[4m``) go as well.
    """
    return _CODES.sub("", text).replace("\r", "").replace("﻿", "").replace("\xa0", " ")

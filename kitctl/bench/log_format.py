"""How does a load client write down what it saw? Binary records, each ``HEADER`` and its payload.

``SENT``: the last byte of a request was handed to the kernel; payload JSON ``[stream, begun_ns, due_ns]``.
``DATA``: bytes arrived. ``END``: the answer is complete (payload empty) or lost (payload says why).
Times are ``CLOCK_MONOTONIC`` in ns, so that logs of several processes of one host can be put together.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<BIQI")
SENT = 1
DATA = 2
END = 3

"""Ask nvidia-smi every few seconds while a load runs against this very host."""

from __future__ import annotations

import shutil

from kitctl.bench.gpu_watch import GPU_QUERY
from kitctl.edge.clock import monotonic_s
from kitctl.edge.process import run_process

EVERY_S = 5.0


class GpuSampler:
    """Keeps nvidia-smi's answers; silent when the server is elsewhere or there is no nvidia-smi."""

    def __init__(self, *, local: bool) -> None:
        self.samples: list[str] = []
        self._enabled = local and shutil.which(GPU_QUERY[0]) is not None
        self._next_s = monotonic_s() + 1.0

    def sample(self) -> None:
        """Take a sample when one is due."""
        if not self._enabled or monotonic_s() < self._next_s:
            return
        self._next_s = monotonic_s() + EVERY_S
        done = run_process(GPU_QUERY, timeout_s=5.0)
        if done.ok:
            self.samples.append(done.stdout)
        else:
            self._enabled = False

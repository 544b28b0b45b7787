"""Which share of a server that spans several hosts is one host's?"""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.errors import Exit, KitError
from kitctl.kit.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One host of a server that spans ``nodes`` hosts, as SGLang counts them.

    ``meeting`` is rank 0's ``ADDRESS:PORT``, ``interface`` the network device that leads to the others,
    ``dist_timeout_s`` how long the ranks wait for each other, ``not_across`` names of the environment that are right
    on one host alone.
    """

    nodes: int
    number: int
    meeting: str
    interface: str
    dist_timeout_s: int
    not_across: tuple[str, ...] = ()

    @property
    def serves(self) -> bool:
        """Whether clients are answered here: by rank 0 alone."""
        return self.number == 0

    @property
    def words(self) -> str:
        """For a person: ``rank 1 of 2``."""
        return f"rank {self.number} of {self.nodes}"


def gpus_here(stack: Stack, rank: Rank | None) -> int:
    """GPUs that the stack uses on one host.

    Raises KitError ``ranks-against-gpus`` (exit 2) when they do not share out evenly.
    """
    nodes = rank.nodes if rank else 1
    if stack.gpu_count % nodes:
        raise KitError(
            "ranks-against-gpus",
            f"{stack.gpu_count} GPUs (tp {stack.parallel.tp}, pp {stack.parallel.pp}) do not share out over {nodes} "
            "hosts",
            remedy=f"choose --set parallel.tp so that tp times pp is a multiple of {nodes}",
            exit_code=Exit.USAGE,
        )
    return stack.gpu_count // nodes

"""What may a stack file say? Types only; ``catalog`` turns YAML into them.

Engine settings keep SGLang's own names with underscores where SGLang has one; the version-neutral ones
(``graphs``, ``graph_max_bs``, ``draft_window``) are rendered into each pin set's spelling by the plan.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Ranks = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Graphs(StrEnum):
    """Which CUDA graphs the engine captures; ``decode`` leaves prefill graphs off."""

    ON = "on"
    DECODE = "decode"
    OFF = "off"


class Parallel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parallel layout: GPUs = dp * tp * pp; ep splits experts inside tp."""

    tp: Ranks = 1
    ep: Ranks = 1
    pp: Ranks = 1
    dp: Ranks = 1


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Version-neutral engine settings; ``None`` leaves SGLang's default. ``flags`` are passed as they are.

    ``graphs`` left out means ``decode`` under DFLASH (its prefill graphs have open crashes), else ``on``.
    """

    mem_fraction_static: Share | None = None
    context_length: Count | None = None
    max_running_requests: Count | None = None
    max_total_tokens: Count | None = None
    chunked_prefill_size: int | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    sampling_backend: str | None = None
    grammar_backend: str | None = None
    moe_runner_backend: str | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    trust_remote_code: bool = False
    graphs: Graphs | None = None
    graph_max_bs: Count | None = None
    random_seed: int | None = None
    flags: dict[str, str | int | float | bool] = {}


class Algorithm(StrEnum):
    """How drafts are made."""

    DFLASH = "DFLASH"
    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"
    DDTREE = "DDTREE"


class Drafter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The drafter of a speculative stack: a model of the lock, and how it is used."""

    model: str
    algorithm: Algorithm = Algorithm.DFLASH
    block_size: Count | None = None
    draft_window: Count | None = None
    attention_backend: str | None = None


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which image serves: one of the kit by pin set, or ``reference`` for a stack that names its own."""

    name: str = "sglang"
    release: str | None = None
    stage: str = "gpu"
    reference: str | None = None


class Serve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and as what the stack answers. ``start_period_s`` covers load, graphs and warm-up.

    ``read_only_root`` false is for images of others that write outside /tmp and their home. ``ports``
    are those of add-ons on the host, by the names that ``kitctl overlays --json`` gives.
    """

    port: Port = 30001
    bind: str = "127.0.0.1"
    model_name: str | None = None
    start_period_s: Count = 900
    stop_grace_s: Count = 60
    shm_size_bytes: Count = 32 * 1024**3
    read_only_root: bool = True
    ports: dict[str, Port] = {}


Question = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=4096)]
"""What a canary asks: not blank, and no longer than a small context holds."""


class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a healthy run of this stack shows; the canary compares with it.

    ``answer`` must be part of what ``prompt`` is answered with. ``prompts`` are asked in place of the kit's general
    ones, for a model that knows little else.
    """

    prompt: Question | None = None
    answer: str | None = None
    prompts: Annotated[tuple[Question, ...], msgspec.Meta(max_length=16)] = ()
    accept_length_min: float | None = None
    accept_length_max: float | None = None


class Stack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One named serving configuration, its parts merged."""

    name: str
    summary: str
    model: str
    drafter: Drafter | None = None
    parallel: Parallel = Parallel()
    engine: EngineSettings = EngineSettings()
    image: Image = Image()
    serve: Serve = Serve()
    expect: Expect = Expect()
    environment: dict[str, str] = {}
    archs: tuple[str, ...] = ()
    """Compute capabilities that the stack was made for (``12.0``); empty means any."""

    @property
    def models(self) -> tuple[str, ...]:
        """The target, and the drafter if there is one."""
        return (self.model, *((self.drafter.model,) if self.drafter else ()))

    @property
    def gpu_count(self) -> int:
        """GPUs that the engine uses: dp * tp * pp (SGLang 0.5.16: tp is the world size of one replica)."""
        return self.parallel.dp * self.parallel.tp * self.parallel.pp

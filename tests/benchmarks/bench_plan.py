"""How many plans a second does one core decide? Run by hand: python tests/benchmarks/bench_plan.py

One plan is: argv, all rules of the engine with the flag table, and the memory fit, from facts already read.
"""

from __future__ import annotations

import time
from pathlib import Path

from kitctl.kit.drafter_facts import read_drafter_facts
from kitctl.kit.flag_table import read_flag_table
from kitctl.kit.model_facts import read_model_facts
from kitctl.kit.stack import Drafter, EngineSettings, Parallel, Stack
from kitctl.plan.engine_rules import check_rules, read_rules
from kitctl.plan.flag_spelling import engine_argv, read_spellings
from kitctl.plan.memory import fit_memory
from kitctl.plan.memory_data import read_memory_data
from kitctl.plan.memory_report import memory_findings
from kitctl.plan.memory_stage import GpuMemory

ROOT = Path(__file__).parents[2]
DATA = ROOT / "kitctl" / "data"
MODELS = ROOT / "tests" / "cases" / "models"
RELEASE = "0.5.16"
COUNT = 500


def main() -> None:
    spellings = read_spellings((DATA / "engine_flags.toml").read_text())
    book = read_rules((DATA / "engine_rules.yaml").read_text())
    memory = read_memory_data((DATA / "engine_memory.toml").read_text())
    table = read_flag_table((DATA / "flags" / f"{RELEASE}.json").read_text(), source=RELEASE)
    model = read_model_facts((MODELS / "kimi-k2.6" / "config.json").read_text())
    drafter = read_drafter_facts((MODELS / "kimi-k2.6-dflash" / "config.json").read_text())
    gpu = GpuMemory(total_mib=97887, name="NVIDIA RTX PRO 6000 Blackwell", compute_capability="12.0")
    stack = Stack(
        name="ep4-dflash",
        summary="",
        model="kimi",
        drafter=Drafter(model="dflash", block_size=8),
        parallel=Parallel(tp=8, ep=4),
        engine=EngineSettings(mem_fraction_static=0.85, context_length=32768, trust_remote_code=True),
    )
    started = time.process_time()
    for _ in range(COUNT):
        argv = engine_argv(
            stack,
            spellings=spellings,
            release=RELEASE,
            model_path="/models/target",
            drafter_path="/models/drafter",
            port=30000,
            bind="0.0.0.0",
        )
        check_rules(
            stack,
            book=book,
            release=RELEASE,
            argv=argv,
            archs=("12.0",),
            model=model,
            drafter=drafter,
            gpu_count=8,
            flag_table=table,
        )
        fit = fit_memory(
            stack, release=RELEASE, model=model, gpu=gpu, data=memory, argv=argv, drafter=drafter
        )
        memory_findings(fit)
    spent_s = time.process_time() - started
    print(f"{COUNT / spent_s:.0f} plans/s of CPU time, {spent_s / COUNT * 1000:.2f} ms each")


if __name__ == "__main__":
    main()

"""Run the collective probe on this machine's GPUs without a container, and judge it: by hand on a GPU host.

``python tests/gpu/collective_trial.py`` needs torch and as many GPUs as shall take part; prints the proof and what it
means. ``kitctl doctor --collective STACK`` does the same inside the serving image.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from kitctl.edge.collective_runner import collective_settings
from kitctl.edge.host_data import load_host_tables
from kitctl.edge.package_data import package_text
from kitctl.edge.probe_runner import gather_host_facts
from kitctl.edge.process import run_process
from kitctl.edge.runs import now_utc
from kitctl.host.topology import classify
from kitctl.plan.collective import P2P_OFF, Proof, Trial, job_text, judge_proof, proof_key, read_trial
from kitctl.plan.types import GpuDriver, GpuReservation


def main() -> None:
    """Both trials on all GPUs, and the verdict."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    indices = tuple(range(len(listed.splitlines())))
    gpus = GpuReservation(driver=GpuDriver.NVIDIA, ids=tuple(map(str, indices)), indices=indices)
    facts = gather_host_facts(engine=None, disks=(), trials=False)
    links = classify(facts.topology, indices).links if facts.topology else None
    settings = collective_settings()
    proof = Proof(
        key=proof_key(facts, indices),
        gpus=indices,
        links=links,
        limit_s=settings.limit_s,
        at_utc=now_utc(),
        planned=trial(gpus, {}),
        without_p2p=trial(gpus, P2P_OFF),
    )
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(proof), indent=1).decode() + "\n")
    for finding in judge_proof(proof, book=load_host_tables().book, settings=settings):
        sys.stdout.write(f"{finding.severity} {finding.code}: {finding.cause}\n")


def trial(gpus: GpuReservation, environment: dict[str, str]) -> Trial:
    """One run of the probe by this Python."""
    settings = collective_settings()
    argv = (sys.executable, "-c", package_text("collective_probe.py"), job_text(gpus, settings))
    done = run_process(argv, timeout_s=settings.limit_s, env={**environment, "NCCL_SOCKET_IFNAME": "lo"})
    return read_trial(done.stdout, done.stderr, exit_code=done.exit_code)


if __name__ == "__main__":
    main()

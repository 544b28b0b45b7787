"""The collective proof: run it, or tell what an earlier one of the same host said."""

from __future__ import annotations

from functools import partial

from kitctl.commands.planning import Planned
from kitctl.edge.collective_runner import collective_settings, load_proof, run_trial, save_proof
from kitctl.edge.docker_engine import image_id
from kitctl.edge.host_data import load_host_tables
from kitctl.edge.runs import now_utc
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding
from kitctl.host.topology import LinkClass, classify
from kitctl.plan.collective import P2P_OFF, Proof, hindrances, judge_proof, proof_key
from kitctl.plan.types import GpuDriver
from kitctl.result import Context


def prove(planned: Planned, context: Context) -> tuple[Finding, ...]:
    """Run both trials on the plan's GPUs, keep the proof, and say what it means.

    Nothing is run while a finding on engine, driver or GPUs blocks. Raises KitError ``image-missing`` (exit 3).
    """
    plan, settings = planned.plan, collective_settings()
    in_the_way = hindrances(plan.findings)
    if in_the_way:
        context.say(f"the collective proof was not run: {in_the_way[0].cause}")
        return ()
    if image_id(plan.image.reference) is None:
        raise _image_missing(plan.image.reference)
    proof_of = partial(run_trial, plan.image.reference, gpus=plan.gpus, settings=settings)
    context.say(f"all-reduce as planned, at most {settings.limit_s:g} s")
    planned_trial, control = proof_of(environment=dict(plan.environment)), None
    if plan.gpus.driver is not GpuDriver.NONE:
        context.say(f"all-reduce with P2P off, at most {settings.limit_s:g} s")
        control = proof_of(environment=dict(plan.environment) | P2P_OFF)
    proof = Proof(
        key=proof_key(planned.facts, plan.gpus.indices),
        gpus=plan.gpus.indices,
        links=_links(planned),
        limit_s=settings.limit_s,
        at_utc=now_utc(),
        planned=planned_trial,
        without_p2p=control,
    )
    save_proof(proof)
    return judge_proof(proof, book=load_host_tables().book, settings=settings)


def earlier_proof(planned: Planned) -> tuple[Finding, ...]:
    """What a proof of this driver, kernel and topology said; a note where PCIe GPUs lack one."""
    plan, book = planned.plan, load_host_tables().book
    if plan.gpus.driver is GpuDriver.NONE or len(plan.gpus.indices) < 2:
        return ()
    proof = load_proof(proof_key(planned.facts, plan.gpus.indices))
    if proof is not None:
        return judge_proof(proof, book=book, settings=collective_settings())
    is_pcie = _links(planned) in (LinkClass.PCIE, LinkClass.NVLINK_PARTIAL)
    return (book.tell("p2p-unproven", where="collective"),) if is_pcie else ()


def _links(planned: Planned) -> str | None:
    topology = planned.facts.topology
    gpus = planned.plan.gpus.indices
    return classify(topology, gpus).links if topology is not None and gpus else None


def _image_missing(reference: str) -> KitError:
    return KitError(
        "image-missing",
        f"the proof runs in the serving image, and {reference} is not on the engine",
        remedy="kitctl build, or name one with --image",
        exit_code=Exit.REFUSED,
    )

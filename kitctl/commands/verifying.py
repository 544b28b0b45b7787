"""Hold the kit's files, images on the engine and models in the store against what names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kitctl.commands.smoking import bill_of_materials
from kitctl.edge.docker_engine import image_labels
from kitctl.edge.image_archive import read_image
from kitctl.edge.image_store import load_bill, load_image_record, save_bill
from kitctl.edge.kit_files import image_names, load_pin_texts
from kitctl.edge.lock_file import read_locks
from kitctl.edge.own_files import see_kit, see_package
from kitctl.edge.store_files import locate_model
from kitctl.edge.verify import verify_model
from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity, all_blocking
from kitctl.kit.constraints import read_constraints
from kitctl.kit.image_record import ImageRecord
from kitctl.kit.models_lock import LockState, ModelEntry, find_entry
from kitctl.kit.own_files import judge_own_files
from kitctl.kit.pins import PinSet, Stage, image_tag, load_pin_set, lock_of, read_pins
from kitctl.kit.stack import Stack
from kitctl.plan.image_checks import check_image
from kitctl.plan.image_choice import choose_image
from kitctl.plan.proofs import Kind, Proven, check_bill, check_listing, check_record
from kitctl.plan.types import ImageChoice, Request
from kitctl.result import Context
from kitctl.store.sizes import size_text


@dataclass(frozen=True, kw_only=True)
class Depth:
    """How much is read: ``deep`` every byte, ``fresh`` also what was proven before."""

    deep: bool
    fresh: bool


@dataclass(frozen=True, kw_only=True)
class PinnedImage:
    """One stage of a pin set: the image's reference and what its lock says."""

    reference: str
    pin_set: PinSet
    stage: str
    lock: dict[str, str]


def prove_kit(kit_dir: str) -> tuple[Proven, ...]:
    """The package, and the kit's folder when it lies elsewhere."""
    seen = [one for one in (see_package(), see_kit(kit_dir)) if one is not None]
    return tuple(
        Proven(
            kind=Kind.KIT,
            name=one.root,
            against=one.against or "nothing",
            detail=f"{len(one.found)} files",
            findings=judge_own_files(one),
        )
        for one in seen
    )


def prove_images(kit_dir: str, stack: Stack | None, *, depth: Depth, context: Context) -> tuple[Proven, ...]:
    """The stack's image, which must be there; without a stack every image of the kit that is on the engine."""
    wanted = _image_of(kit_dir, stack) if stack is not None else None
    if wanted is not None and wanted.name is None:
        context.say(f"{wanted.reference}: not built by the kit, so no pin set names what it should hold")
        return ()
    pinned = [one for one in _pinned_images(kit_dir) if wanted is None or one.reference == wanted.reference]
    there = {one.reference: image_labels(one.reference) for one in pinned}
    if wanted is None and not any(there.values()):
        context.say("no image of the kit is on this engine, left out")
    return tuple(
        _prove_image(one, there[one.reference], kit_dir, deep=depth.deep)
        for one in pinned
        if there[one.reference] is not None or wanted is not None
    )


def _pinned_images(kit_dir: str) -> Iterator[PinnedImage]:
    for name in image_names(kit_dir):
        texts = load_pin_texts(kit_dir, name)
        pins = read_pins(texts["pins.toml"], source=f"images/{name}/pins.toml")
        for release in pins.pin_sets:
            lock = lock_of(texts, release)
            pin_set = load_pin_set(pins, release, lock)
            for stage in Stage:
                yield PinnedImage(
                    reference=image_tag(pin_set, stage), pin_set=pin_set, stage=stage.value, lock=lock
                )


def _prove_image(
    one: PinnedImage, found: tuple[str, dict[str, str]] | None, kit_dir: str, *, deep: bool
) -> Proven:
    against = f"pin set {one.pin_set.release} ({one.pin_set.pins_hash[:12]}) and its record"
    if found is None:
        return Proven(
            kind=Kind.IMAGE,
            name=one.reference,
            against=against,
            detail="not on this engine",
            findings=(_absent(one),),
        )
    image_id, labels = found
    record = load_image_record(one.reference)
    findings = [
        *check_image(
            one.reference, image_id=image_id, labels=labels, pins_hash=one.pin_set.pins_hash, record=record
        ),
        *check_record(one.reference, record),
    ]
    detail = f"id {image_id.removeprefix('sha256:')[:12]}, labels, bill of materials"
    if record is not None:
        findings += _prove_packages(one, record, kit_dir, deep=deep)
    if deep:
        blobs, damage = _read_layers(one.reference)
        findings += damage
        detail += f", packages, {blobs}"
    return Proven(
        kind=Kind.IMAGE, name=one.reference, against=against, detail=detail, findings=tuple(findings)
    )


def _prove_packages(
    one: PinnedImage, record: ImageRecord, kit_dir: str, *, deep: bool
) -> tuple[Finding, ...]:
    """The bill of materials against record and lock, with ``deep`` against the packages in the image now.

    An image that was built without a test has no bill: it is listed now, and that is kept.
    """
    packages = read_constraints(one.lock["constraints.txt"])
    locked = {name: package.version for name, package in packages.items()}
    bill = load_bill(record)
    try:
        now = bill_of_materials(kit_dir, record) if deep or bill is None else None
    except KitError as unreadable:
        return (_told(unreadable, one.reference),)
    if bill is None and now is not None:
        save_bill(record, now)
    kept = bill or now or ""
    listed = check_listing(kept, now, record) if now is not None else ()
    return (*check_bill(kept, record, locked=locked), *listed)


def _read_layers(reference: str) -> tuple[str, tuple[Finding, ...]]:
    """Every blob of the image read and held against its digest: how many bytes, and what is damaged."""
    try:
        saved = read_image(reference, sink=lambda digest, size_bytes, chunks: None)
    except KitError as wrong:
        if wrong.exit_code is not Exit.FETCH:
            raise
        return "layers read", (_told(wrong, reference),)
    return f"{len(saved.blobs)} blobs, {size_text(sum(saved.blobs.values()))}", ()


def _told(wrong: KitError, where: str) -> Finding:
    """A failure as a finding, so that the other proofs are told beside it."""
    return Finding(
        code=wrong.code,
        severity=Severity.BLOCK,
        cause=wrong.cause,
        evidence=wrong.evidence,
        remedy=wrong.remedy,
        where=where,
    )


def _absent(one: PinnedImage) -> Finding:
    return Finding(
        code="image-missing",
        severity=Severity.BLOCK,
        cause=f"the image {one.reference} is not on this engine",
        remedy=f"kitctl build {one.pin_set.image} --release {one.pin_set.release} --stage {one.stage}",
        where=one.reference,
    )


def _image_of(kit_dir: str, stack: Stack) -> ImageChoice:
    return choose_image(stack, Request(stack=stack.name), pin_texts=load_pin_texts(kit_dir, stack.image.name))


def prove_models(
    kit_dir: str, stack: Stack | None, *, store: str, depth: Depth, context: Context
) -> tuple[Proven, ...]:
    """The stack's models, which must be there; without a stack every locked model that is in the store."""
    lock = read_locks(kit_dir).merged
    if stack is not None:
        return tuple(
            _prove_model(find_entry(lock, model), store, depth=depth, context=context)
            for model in stack.models
        )
    there = [
        entry for entry in lock.models if not _is_unlocked(entry) and locate_model(entry, store).is_there
    ]
    if not there:
        context.say(f"no locked model is in {store}, left out")
    return tuple(_prove_model(entry, store, depth=depth, context=context) for entry in there)


def _is_unlocked(entry: ModelEntry) -> bool:
    return entry.state is LockState.RECONSTRUCTED


def _prove_model(entry: ModelEntry, store: str, *, depth: Depth, context: Context) -> Proven:
    if _is_unlocked(entry):
        return _model(entry, "no file is known", "nothing", (_unlocked(entry),))
    deep = depth.deep or entry.state is LockState.SHIPPED
    report = verify_model(
        entry,
        store,
        deep=deep,
        fresh=depth.fresh,
        every_s=context.tell_every_s,
        say=context.say,
    ).report
    looked = "every hash" if deep else "presence, sizes, headers, small files by hash"
    detail = f"{report.file_count} files, {size_text(report.size_bytes)}, {looked}"
    commit = f" (commit {entry.commit[:12]})" if entry.commit else ""
    return _model(entry, detail, f"models.lock{commit}", all_blocking(report.findings))


def _model(entry: ModelEntry, detail: str, against: str, findings: tuple[Finding, ...]) -> Proven:
    return Proven(kind=Kind.MODEL, name=entry.repo, against=against, detail=detail, findings=findings)


def _unlocked(entry: ModelEntry) -> Finding:
    return Finding(
        code="model-unlocked",
        severity=Severity.BLOCK,
        cause=f"{entry.repo} is not locked: its entry is reconstructed and names no files",
        remedy=f"kitctl models lock {entry.repo}",
        where=entry.repo,
    )

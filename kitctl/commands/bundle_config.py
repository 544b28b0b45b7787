"""Do the kit and the user's own files here agree with a bundle, and the bundle's own stacks put among them."""

from __future__ import annotations

from kitctl.commands.bundle_proving import ProvenBundle
from kitctl.commands.bundling import bundle_stack
from kitctl.edge.bundle_place import entry_here
from kitctl.edge.environment import config_dir
from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import load_kit_texts
from kitctl.edge.lock_file import Locks, read_locks, write_user_lock
from kitctl.errors import Exit, KitError
from kitctl.kit.catalog import KitTexts, resolve_stack
from kitctl.kit.models_lock import ModelEntry, find_entry, with_entry


def check_kit(kit_dir: str, proven: ProvenBundle) -> None:
    """The kit here must want the very images and models that the bundle brings.

    Raises KitError ``bundle-other-kit`` (exit 3) with what differs.
    """
    manifest = proven.bundle.manifest
    here = load_kit_texts(kit_dir)
    texts = KitTexts(kit=here.kit, user={**here.user, **config_texts(proven)})
    differs = []
    for stack in manifest.stacks:
        found = resolve_stack(texts, stack.name).stack
        row, _ = bundle_stack(kit_dir, found, image=None if stack.pins_hash else stack.image)
        differs += [
            f"{stack.name}: {what} {theirs} in the bundle, {ours} by this kit"
            for what, theirs, ours in (
                ("image", stack.image, row.image),
                ("models", " ".join(stack.models), " ".join(row.models)),
            )
            if theirs != ours
        ]
    if differs:
        raise KitError(
            "bundle-other-kit",
            "the bundle was made by another kit than the one here",
            evidence=tuple(differs[:8]),
            remedy=f"use the bundle's own kit: sh {proven.bundle.folder}/kit/install.sh",
            exit_code=Exit.REFUSED,
        )


def config_texts(proven: ProvenBundle) -> dict[str, str]:
    """The user's own files that the bundle carries, by path below the configuration folder."""
    return {
        one.path: b"".join(proven.objects.chunks(one.sha256)).decode()
        for one in proven.bundle.manifest.config
        if proven.objects.has(one.sha256)
    }


def check_config(kit_dir: str, proven: ProvenBundle, *, store: str, replace: bool) -> None:
    """Raises KitError ``bundle-config-differs`` (exit 3) rather than replace what is the user's here."""
    differs = [
        path
        for path, text in config_texts(proven).items()
        if read_text_if_there(f"{config_dir()}/{path}") not in (None, text)
    ]
    locks = read_locks(kit_dir)
    differs += [
        f"models.lock: {entry.repo}"
        for entry in _own_entries(proven, locks, store)
        if entry.repo in locks.merged.names and find_entry(locks.merged, entry.repo) != entry
    ]
    if differs and not replace:
        raise KitError(
            "bundle-config-differs",
            "the bundle brings files and lock entries that you have otherwise",
            evidence=tuple(f"{config_dir()}/{path}" for path in differs[:8]),
            remedy="rename yours, or let the bundle's replace them with --replace-config",
            exit_code=Exit.REFUSED,
        )


def _own_entries(proven: ProvenBundle, locks: Locks, store: str) -> tuple[ModelEntry, ...]:
    """Entries of the bundle that this kit's lock does not hold word for word."""
    entries = [entry_here(entry, store) for entry in proven.bundle.manifest.lock.models]
    kit = {entry.repo: entry for entry in locks.kit.models}
    return tuple(entry for entry in entries if kit.get(entry.repo) != entry)


def put_config(kit_dir: str, proven: ProvenBundle, *, store: str) -> tuple[str, ...]:
    """Write the user's own stacks and lock entries; the paths that were written."""
    written = []
    for path, text in config_texts(proven).items():
        target = f"{config_dir()}/{path}"
        if read_text_if_there(target) != text:
            write_atomic(target, text)
            written.append(target)
    locks = read_locks(kit_dir)
    lock = locks.user
    for entry in _own_entries(proven, locks, store):
        lock = with_entry(lock, entry)
    if lock != locks.user:
        write_user_lock(locks, lock)
        written.append(locks.user_path)
    return tuple(written)

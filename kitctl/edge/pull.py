"""Bring a locked model into the store, whole and proven, or say what stands against it before the first byte."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from kitctl.edge.attest import Attestations, Proof, deep_verify, stat_key
from kitctl.edge.gauge import Gauge, telling
from kitctl.edge.hub import check_access, list_files_at, source_of
from kitctl.edge.room import check_room, check_writable, existing, xet_cache_needs
from kitctl.edge.shipped import open_to_all, shipped_copies
from kitctl.edge.snapshot import clear_parts, give_to_owner, hardlink_blob, link_file, write_ref
from kitctl.edge.store_files import default_store, locate_model
from kitctl.edge.store_lock import hold
from kitctl.edge.streams import Source, xet_is_there
from kitctl.edge.transfer import Patience, Reporter, fetch_file
from kitctl.edge.workers import run_all
from kitctl.errors import Exit, KitError
from kitctl.kit.models_lock import LockedFile, LockState, ModelEntry, require_proven
from kitctl.store.hub_model import changed_files
from kitctl.store.layout import blob_path, lock_path, part_path
from kitctl.store.place import FileSeen, ModelPlace, Presence
from kitctl.store.pull_plan import PullStep, Reusable, Step, bytes_written, plan_pull
from kitctl.store.sizes import size_text

_PATIENCE = Patience(tries=6, stall_s=120.0)


@dataclass(frozen=True, kw_only=True)
class PullSettings:
    """How to pull: ``jobs`` files at once, ``wait_lock_s`` for another pull, a progress line ``every_s``."""

    jobs: int = 8
    patience: Patience = _PATIENCE
    wait_lock_s: float = 0.0
    every_s: float = 30.0


_SETTINGS = PullSettings()


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """What a pull did. ``fetched_bytes`` came over the network, ``reused_bytes`` from this machine."""

    place: ModelPlace
    fetched_bytes: int
    reused_bytes: int
    kept_bytes: int
    seconds: float


def pull_model(
    entry: ModelEntry,
    store_dir: str,
    *,
    say: Callable[[str], None],
    settings: PullSettings = _SETTINGS,
) -> Pulled:
    """Every file of ``entry`` below ``store_dir``, each proven by its hash.

    What is there and proven stays, what the kit ships is copied, what Hugging Face's own cache has is linked, the
    rest is fetched. Raises KitError: ``model-unlocked``, ``shipped-model-differs``, ``hub-*``, ``file-changed``,
    ``fetch-failed``, ``hash-mismatch`` (exit 5), ``disk-full`` (exit 3 before the first byte, 5 later),
    ``store-busy``, ``store-unwritable`` (exit 3).
    """
    require_proven(entry)
    begun = time.monotonic()
    store = Path(store_dir).expanduser().absolute()
    pull = _Pull(entry=entry, store=store, settings=settings, say=say, attestations=Attestations())
    place = pull.locate()
    bad = pull.prove_present(place)
    if place.is_complete and not bad:
        return _pulled(place, (), seconds=time.monotonic() - begun)
    if entry.path is not None:
        raise _not_ours(entry, place, bad=bad)
    lock = Path(lock_path(PurePosixPath(store), entry.repo))
    with hold(lock, repo=entry.repo, wait_s=settings.wait_lock_s, say=say):
        steps = pull.fill()
    give_to_owner(lock.parent.parent, store)
    return _pulled(pull.locate(), steps, seconds=time.monotonic() - begun)


@dataclass(frozen=True, kw_only=True)
class _Pull:
    """One pull of one model into one store."""

    entry: ModelEntry
    store: Path
    settings: PullSettings
    say: Callable[[str], None]
    attestations: Attestations

    def locate(self) -> ModelPlace:
        """What is there now."""
        return locate_model(self.entry, str(self.store))

    def prove_present(self, place: ModelPlace) -> dict[str, str]:
        """Files that are there with the right size and hold other bytes: path and what is wrong."""
        present = (Presence.WHOLE, Presence.BLOB)
        return self._disproven([seen for seen in place.seen if seen.presence in present], place)

    def _disproven(self, seen: Sequence[FileSeen], place: ModelPlace) -> dict[str, str]:
        files = [(one.file, _bytes_path(place, one)) for one in seen]
        unproven = [(file, path) for file, path in files if not self.attestations.is_proven(file, path)]
        gauge = Gauge(f"{place.repo}: verifying", sum(file.size_bytes for file, _ in unproven))
        with telling(gauge.line, self.say, every_s=self.settings.every_s):
            verdicts = deep_verify(
                unproven, attestations=self.attestations, came=gauge.came, stop=threading.Event()
            )
        return {verdict.path: verdict.cause for verdict in verdicts}

    def fill(self) -> tuple[PullStep, ...]:
        """Decide, check, link, move; the model's lock must be held."""
        place = self.locate()
        bad = self.prove_present(place)
        for path, cause in bad.items():
            self.say(f"{self.entry.repo}: {path} {cause}, fetching it anew")
        steps = plan_pull(place, bad=bad, reusable=self._find_reusable(place, bad))
        self._check_room(steps)
        check_writable(Path(place.mount_dir))
        xet_hashes = _ask_hub(self.entry, steps, say=self.say)
        steps = tuple(self._try_hardlink(place, step) for step in steps)
        self._check_room(steps)
        try:
            self._move_all(place, steps, xet_hashes=xet_hashes)
            for step in steps:
                if step.step is not Step.KEEP:
                    link_file(place, step.file)
            write_ref(place, self.entry)
            clear_parts(place, self.entry)
            if self.entry.state is LockState.SHIPPED:
                open_to_all(place)
        finally:
            give_to_owner(Path(place.mount_dir), self.store)
        return steps

    def _check_room(self, steps: Sequence[PullStep]) -> None:
        fetched = bytes_written([step for step in steps if step.step is Step.FETCH])
        others = xet_cache_needs(fetched)
        check_room(self.entry.repo, str(self.store), needed_bytes=bytes_written(steps), others=others)

    def _find_reusable(self, place: ModelPlace, bad: Collection[str]) -> dict[str, Reusable]:
        """Proven copies elsewhere: the kit's own files, what a link of this store leads out to, the user's cache."""
        if self.entry.state is LockState.SHIPPED:
            return shipped_copies(self.entry)
        outside = [seen for seen in place.seen if seen.presence is Presence.OUTSIDE]
        found = self._proven_copies(outside, place, target=place)
        other = locate_model(self.entry, default_store())
        if other.mount_dir == place.mount_dir:
            return found
        wanted = {seen.file.path for seen in place.seen if seen.presence is not Presence.WHOLE} | {*bad}
        good = (Presence.WHOLE, Presence.BLOB, Presence.OUTSIDE)
        theirs = [seen for seen in other.seen if seen.presence in good and seen.file.path in wanted]
        return found | self._proven_copies(theirs, other, target=place)

    def _proven_copies(
        self, seen: Sequence[FileSeen], place: ModelPlace, *, target: ModelPlace
    ) -> dict[str, Reusable]:
        if not seen:
            return {}
        self.say(f"{self.entry.repo}: {len(seen)} files are on this machine already")
        wrong = self._disproven(seen, place)
        device = existing(Path(target.mount_dir)).stat().st_dev
        paths = {one.file.path: _bytes_path(place, one) for one in seen if one.file.path not in wrong}
        return {
            name: Reusable(path=PurePosixPath(path.resolve()), is_same_device=path.stat().st_dev == device)
            for name, path in paths.items()
        }

    def _try_hardlink(self, place: ModelPlace, step: PullStep) -> PullStep:
        """The step done, or turned into a copy. A link changes the file's times, so the proof is noted anew."""
        if step.step is not Step.HARDLINK or step.source is None:
            return step
        if not hardlink_blob(place, step.file, source=step.source):
            size = step.file.size_bytes
            return PullStep(file=step.file, step=Step.COPY, source=step.source, writes_bytes=size)
        self._remember(place, step.file)
        return step

    def _remember(self, place: ModelPlace, file: LockedFile) -> None:
        blob = Path(blob_path(place.mount_dir, file))
        self.attestations.remember(Proof(key=stat_key(blob), digest=file.blob_name))

    def _move_all(
        self, place: ModelPlace, steps: Sequence[PullStep], *, xet_hashes: Mapping[str, str | None]
    ) -> None:
        """Fetch and copy, ``jobs`` files at once; files with the same bytes are moved once."""
        moving = [step for step in steps if step.step in (Step.FETCH, Step.COPY)]
        todo = list({step.file.blob_name: step for step in moving}.values())
        if not todo:
            return
        total, left = sum(step.file.size_bytes for step in todo), bytes_written(todo)
        self.say(f"{self.entry.repo}: fetching {len(todo)} files, {size_text(left)} of {size_text(total)}")
        gauge, stop = Gauge(self.entry.repo, total), threading.Event()
        reporter = Reporter(came=gauge.came, had=gauge.had, say=self.say, stop=stop)

        def move(step: PullStep) -> None:
            source = _source(self.entry, step, xet_hash=xet_hashes.get(step.file.path))
            blob = Path(blob_path(place.mount_dir, step.file))
            part = Path(part_path(place.mount_dir, step.file))
            fetch_file(source, part, blob, patience=self.settings.patience, reporter=reporter)
            give_to_owner(blob, self.store)
            link_file(place, step.file)
            self._remember(place, step.file)

        with telling(gauge.line, self.say, every_s=self.settings.every_s):
            run_all([partial(move, step) for step in todo], jobs=self.settings.jobs, stop=stop)


def _bytes_path(place: ModelPlace, seen: FileSeen) -> Path:
    if seen.presence is Presence.BLOB:
        return Path(blob_path(place.mount_dir, seen.file))
    return Path(place.host_dir / seen.file.path)


def _ask_hub(
    entry: ModelEntry, steps: Sequence[PullStep], *, say: Callable[[str], None]
) -> Mapping[str, str | None]:
    """Xet hashes by path, after the hub agreed to the lock and to this user. Asks nothing when nothing is fetched."""
    wanted = [step.file for step in steps if step.step is Step.FETCH]
    if not wanted:
        return {}
    listed = list_files_at(entry.repo, str(entry.commit), say=say)
    changed = changed_files(entry, listed)
    if changed:
        raise KitError(
            "file-changed",
            f"the hub's files of {entry.repo} are not those that models.lock names",
            evidence=changed[:5],
            remedy=f"kitctl models lock {entry.repo}, then look at the change with git diff models.lock",
            exit_code=Exit.FETCH,
        )
    check_access(entry, wanted[0], say=say)
    return {file.path: file.xet_hash for file in listed} if xet_is_there() else {}


def _source(entry: ModelEntry, step: PullStep, *, xet_hash: str | None) -> Source:
    if step.step is Step.COPY:
        return Source(entry=entry, file=step.file, url=str(step.source), local=str(step.source))
    return source_of(entry, step.file, xet_hash=xet_hash)


def _not_ours(entry: ModelEntry, place: ModelPlace, *, bad: Collection[str]) -> KitError:
    wrong = sorted({*bad, *(file.path for file in place.missing)})
    return KitError(
        "local-model-broken",
        f"{entry.repo} lies in your folder {entry.path}, which kitctl does not write to, and is broken there",
        evidence=tuple(wrong[:5]),
        remedy=f"restore the files, or 'kitctl models rm {entry.repo}' and pull it into the store",
        exit_code=Exit.FETCH,
    )


def _pulled(place: ModelPlace, steps: Sequence[PullStep], *, seconds: float) -> Pulled:
    fetched = sum(step.writes_bytes for step in steps if step.step is Step.FETCH)
    reused = sum(step.file.size_bytes for step in steps if step.step in (Step.COPY, Step.HARDLINK))
    kept = [step.file.size_bytes for step in steps if step.step in (Step.KEEP, Step.LINK)]
    return Pulled(
        place=place,
        fetched_bytes=fetched,
        reused_bytes=reused,
        kept_bytes=sum(kept) if steps else place.total_bytes or 0,
        seconds=seconds,
    )

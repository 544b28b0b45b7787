"""Read a bundle through and say that it is whole, before anything is taken from it."""

from __future__ import annotations

from dataclasses import dataclass

from kitctl.bundle.manifest import named_objects
from kitctl.edge.bundle_reader import Bundle, Objects, open_bundle, prove_bundle
from kitctl.edge.gauge import Gauge, telling
from kitctl.result import Context


@dataclass(frozen=True, kw_only=True)
class ProvenBundle:
    """A bundle whose every byte was read. ``lacking``: objects that it names and neither it nor a base holds."""

    bundle: Bundle
    objects: Objects
    lacking: frozenset[str]
    read_bytes: int


def prove(folder: str, *, bases: tuple[str, ...], digest: str | None, context: Context) -> ProvenBundle:
    """Prove the bundle and what it needs of the older ones. Raises KitError (exit 2 or 5) with what and where."""
    bundle = open_bundle(folder, digest=digest)
    older = tuple(open_bundle(base) for base in bases)
    objects = Objects(bundle, older)
    named = named_objects(bundle.manifest)
    from_older = {sha256 for sha256 in named if objects.has(sha256) and not objects.is_in(bundle, sha256)}
    total = bundle.manifest.stream_bytes + sum(file.size_bytes for file in bundle.manifest.files)
    total += sum(objects.size_bytes(sha256) for sha256 in from_older)
    gauge = Gauge("proving the bundle", total)
    with telling(gauge.line, context.say, every_s=context.tell_every_s):
        prove_bundle(bundle, came=gauge.came)
        objects.prove(from_older, came=gauge.came)
    lacking = frozenset(sha256 for sha256 in named if not objects.has(sha256))
    return ProvenBundle(bundle=bundle, objects=objects, lacking=lacking, read_bytes=gauge.came_bytes)

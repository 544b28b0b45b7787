"""``kitctl bundle verify``: prove every byte of a bundle, take nothing in."""

from __future__ import annotations

import argparse

from kitctl.commands.bundle_proving import prove
from kitctl.edge.files import absolute
from kitctl.result import Context, Result
from kitctl.store.sizes import size_text

SCHEMA = "kitctl.bundle-verify/1"


def run(args: argparse.Namespace, context: Context) -> Result:
    """Exit 0 when the bundle and the older ones that are named are as they were made; exit 5 with what and where."""
    bases = tuple(absolute(folder) for folder in args.base)
    proven = prove(absolute(args.bundle), bases=bases, digest=args.digest, context=context)
    manifest = proven.bundle.manifest
    data = {
        "schema": SCHEMA,
        "folder": proven.bundle.folder,
        "digest": proven.bundle.digest,
        "ok": True,
        "made": manifest.made,
        "stacks": [stack.name for stack in manifest.stacks],
        "images": [image.reference for image in manifest.images],
        "models": [model.repo for model in manifest.models],
        "caches": [cache.volume for cache in manifest.caches],
        "needs_older": sorted(proven.lacking),
        "read_bytes": proven.read_bytes,
    }
    lines = [
        f"{proven.bundle.folder}: whole, {size_text(proven.read_bytes)} read, digest {proven.bundle.digest}"
    ]
    if proven.lacking:
        lines.append(f"{len(proven.lacking)} objects lie in the older bundle {manifest.since}")
    return Result(data=data, lines=tuple(lines))

"""``kitctl images lock``: write every pin set's constraints, layer lists and flag table anew."""

from __future__ import annotations

import argparse

from kitctl.edge.files import read_text_if_there, write_atomic
from kitctl.edge.kit_files import find_kit, load_pin_texts
from kitctl.edge.package_data import package_path
from kitctl.edge.package_index import engine_source, resolve_packages
from kitctl.errors import Exit
from kitctl.kit.constraints import read_constraints, split_layers
from kitctl.kit.flag_source import build_flag_table
from kitctl.kit.flag_table import write_flag_table
from kitctl.kit.pins import PinFile, choose_release, read_pins
from kitctl.result import Context, Result


def run(args: argparse.Namespace, context: Context) -> Result:
    """Write what changed; with ``--check`` write nothing and exit 9 when something would change."""
    kit_dir = find_kit(context.kit_dir)
    source = f"images/{args.image}/pins.toml"
    pins = read_pins(load_pin_texts(kit_dir, args.image).get("pins.toml", ""), source=source)
    releases = [choose_release(pins, release=args.release)] if args.release else list(pins.pin_sets)
    changed = []
    for release in releases:
        context.say(f"lock: {args.image} {release}")
        for path, text in locked_files(pins, release, f"{kit_dir}/images/{args.image}").items():
            if read_text_if_there(path) != text:
                changed.append(path)
                if not args.check:
                    write_atomic(path, text)
    data = {"schema": "kitctl.images-lock/1", "releases": releases, "changed": changed, "checked": args.check}
    word = "would change" if args.check else "written"
    lines = tuple(f"{word}: {path}" for path in changed) or ("every lock is up to date",)
    return Result(data=data, lines=lines, exit=Exit.GATE if args.check and changed else Exit.OK)


def locked_files(pins: PinFile, release: str, folder: str) -> dict[str, str]:
    """Path to text of all that is locked for a release. Raises KitError (exit 2 or 5)."""
    entry = pins.pin_sets[release]
    engine = pins.layers.engine
    constraints = resolve_packages(entry, what=f"{pins.image} {release}")
    layers = split_layers(read_constraints(constraints), pins.layers)
    files = {"constraints.txt": constraints, **layers.files()}
    table = build_flag_table(
        engine_source(entry, engine=engine, patterns=pins.flags.sources), engine=engine, release=release
    )
    flags = {package_path(f"flags/{release}.json"): write_flag_table(table)}
    return {f"{folder}/{release}/{name}": text for name, text in files.items()} | flags

"""``kitctl schema``: the JSON Schema of a file that users write, for editors."""

from __future__ import annotations

import argparse

from kitctl.kit.schemas import SCHEMAS, schema_text
from kitctl.result import Context, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``schema``."""
    parser.add_argument("kind", choices=sorted(SCHEMAS), help="which kind of file")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Print the schema; it is JSON in either form of output."""
    del context
    return Result(data=SCHEMAS[args.kind](), lines=tuple(schema_text(args.kind).splitlines()))

"""``kitctl schema``: the JSON Schema of a file that users write, for editors."""

from __future__ import annotations

import argparse

import msgspec

from kitctl.kit.campaign import campaign_schema
from kitctl.result import Context, Result

SCHEMAS = {"campaign": campaign_schema}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``schema``."""
    parser.add_argument("kind", choices=sorted(SCHEMAS), help="which kind of file")


def run(args: argparse.Namespace, context: Context) -> Result:
    """Print the schema; it is JSON in either form of output."""
    del context
    schema = SCHEMAS[args.kind]()
    text = msgspec.json.format(msgspec.json.encode(schema)).decode()
    return Result(data=schema, lines=(text,))

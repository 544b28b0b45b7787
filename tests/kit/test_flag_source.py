"""An engine's flags are read from its source alone, as its own parser would have them."""

import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.flag_source import build_flag_table
from kitctl.kit.flag_table import Flag, Takes

FIELDS = """
CHOICES = ["a", "b"] + MORE
MORE = ["c"]
class Backend:
    OFF = "off"
    ALL = (OFF, "full")
class Args:
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    tp_size: A[int, "GPUs"] = 1
    quiet: A[bool, "less"] = False
    sizes: A[Optional[List[int]], "several"] = None
    kind: A[str, Arg(help="x", choices=CHOICES)] = "a"
    graph: A[Optional[str], Arg(help="x", cli_name="--graph-backend", choices=Backend.ALL)] = None
    level: A[Literal[0, 2], "x"] = 0
    both: A[bool, Arg(help="x", action=argparse.BooleanOptionalAction)] = True
    hidden: A[bool, Arg(no_cli=True)] = False
    computed: A[str, "x"] = function_of(something)
    not_a_flag: int = 3
"""


def flags_of(text: str, path: str = "sglang/srt/server_args.py") -> dict[str, Flag]:
    return {flag.name: flag for flag in build_flag_table({path: text}, engine="e", release="1").flags}


def test_fields_with_annotations_become_flags() -> None:
    flags = flags_of(FIELDS)
    assert flags == {
        "--model-path": Flag(name="--model-path", aliases=("--model",), required=True),
        "--tp-size": Flag(name="--tp-size", type="int", default=1, has_default=True),
        "--quiet": Flag(name="--quiet", takes=Takes.NOTHING, type="bool", default=False, has_default=True),
        "--sizes": Flag(name="--sizes", takes=Takes.MANY, type="int", has_default=True),
        "--kind": Flag(name="--kind", choices=("a", "b", "c"), default="a", has_default=True),
        "--graph-backend": Flag(name="--graph-backend", choices=("off", "full"), has_default=True),
        "--level": Flag(name="--level", type="int", choices=(0, 2), default=0, has_default=True),
        "--both": Flag(
            name="--both",
            aliases=("--no-both",),
            takes=Takes.NOTHING,
            type="bool",
            default=True,
            has_default=True,
        ),
        "--computed": Flag(name="--computed"),
    }


def test_arguments_added_by_hand_tell_what_replaces_them() -> None:
    text = """
def names():
    return list(Parser.Map.keys())
class Parser:
    Map = {"kimi": 1, "qwen": 2}
def add(parser):
    found = names()
    parser.add_argument("--parser", type=str, choices=["auto"] + found)
    parser.add_argument("--old", action=DeprecatedAliasStoreAction, new_flag="--new", type=int, nargs="+")
    parser.add_argument("--gone", action=DeprecatedAction, help="Deprecated.")
    parser.add_argument(variable)
"""
    assert flags_of(text) == {
        "--parser": Flag(name="--parser", choices=("auto", "kimi", "qwen")),
        "--old": Flag(name="--old", takes=Takes.MANY, type="int", deprecated=True, replaced_by="--new"),
        "--gone": Flag(name="--gone", takes=Takes.NOTHING, deprecated=True),
    }


def test_a_source_that_only_holds_values_declares_no_flag() -> None:
    with pytest.raises(KitError) as refused:
        build_flag_table({"sglang/srt/utils/common.py": FIELDS}, engine="sglang", release="9.9")
    assert (refused.value.code, refused.value.exit_code) == ("no-flags", Exit.USAGE)
    assert refused.value.cause == "no flags were found in the source of sglang 9.9"

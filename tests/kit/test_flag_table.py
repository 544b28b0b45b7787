"""The committed flag tables say what the pinned engines' own parsers say."""

from pathlib import Path

import pytest

from kitctl.errors import KitError
from kitctl.kit.flag_table import FlagTable, read_flag_table, write_flag_table

FLAGS = Path(__file__).parents[2] / "kitctl" / "data" / "flags"


def table(release: str) -> FlagTable:
    path = FLAGS / f"{release}.json"
    return read_flag_table(path.read_text(encoding="utf-8"), source=str(path))


@pytest.mark.parametrize(("release", "flags", "names"), [("0.5.16", 460, 476), ("0.5.23", 531, 559)])
def test_the_totals_are_those_of_the_real_parsers(release: str, flags: int, names: int) -> None:
    found = table(release)
    assert (len(found.flags), len(set(found.names()))) == (flags, names)


def test_a_table_survives_writing_and_reading() -> None:
    found = table("0.5.16")
    assert read_flag_table(write_flag_table(found), source="x") == found
    assert write_flag_table(found) == (FLAGS / "0.5.16.json").read_text(encoding="utf-8")


def test_abbreviations_are_not_names() -> None:
    found = table("0.5.16")
    assert found.find("--speculative-dflash") is None
    assert found.abbreviated("--speculative-dflash") == (
        "--speculative-dflash-block-size",
        "--speculative-dflash-draft-window-size",
    )
    assert found.near("--attention-backnd") == "--attention-backend"


def test_an_alias_finds_its_flag() -> None:
    found = table("0.5.16").find("--tensor-parallel-size")
    assert found is not None
    assert found.name == "--tp-size"


def test_a_deprecated_flag_names_its_successor_and_is_gone_later() -> None:
    old = table("0.5.16").find("--cuda-graph-max-bs")
    assert old is not None
    assert (old.deprecated, old.replaced_by) == (True, "--cuda-graph-max-bs-decode")
    assert table("0.5.23").find("--cuda-graph-max-bs") is None


def test_a_broken_table_names_the_file() -> None:
    with pytest.raises(KitError) as refused:
        read_flag_table('{"engine": 1}', source="flags/1.json")
    assert refused.value.cause == "flags/1.json: Expected `str`, got `int` - at `$.engine`"

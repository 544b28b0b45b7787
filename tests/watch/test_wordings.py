"""The same failure in other words, from other releases and ranks, is still named; look-alikes are not blamed."""

from pathlib import Path

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.diagnose import diagnose

CASES = Path(__file__).parent.parent / "cases"
BOOK = failure_book()
ROWS = [row for row in (CASES / "wordings.tsv").read_text().splitlines() if not row.startswith("#")]
NAMED = [(code, text.replace("\\n", "\n")) for code, text in (row.split("\t", 1) for row in ROWS)]
NOT_BLAMED = (CASES / "benign-lines.txt").read_text().splitlines()
IDS = [f"{code}-{at}" for at, (code, _) in enumerate(NAMED)]
NOT_OF_A_LOAD = ("fired up", "SIGTERM", "accept len", "Loading safetensors")


@pytest.mark.parametrize(("code", "text"), NAMED, ids=IDS)
def test_other_words_name_the_same_failure(code: str, text: str) -> None:
    assert [found.code for found in diagnose(text, BOOK)] == [code]


@pytest.mark.parametrize("line", NOT_BLAMED)
def test_a_line_that_only_looks_bad_is_not_blamed(line: str) -> None:
    assert diagnose(line, BOOK) == ()


@pytest.mark.parametrize(("code", "text"), NAMED, ids=IDS)
def test_benign_lines_around_it_change_nothing(code: str, text: str) -> None:
    around = "\n".join(line for line in NOT_BLAMED if not any(word in line for word in NOT_OF_A_LOAD))
    assert [found.code for found in diagnose(f"{around}\n{text}\n{around}", BOOK)] == [code]

"""A real browser lays the page out: every figure and mark is there, in light, in dark and on paper."""

import subprocess
from pathlib import Path

import pytest
from test_html_report import ACCEPT, CSS, read, results

from kitctl.bench.html_report import page

CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


@pytest.fixture
def address(tmp_path: Path) -> str:
    (tmp_path / "page.html").write_text(page(results(), css=CSS, acceptances=[ACCEPT], made_by="kitctl"))
    return f"file://{tmp_path}/page.html"


@pytest.mark.slow
def test_browser_reads_the_same_figures(address: str) -> None:
    done = subprocess.run(
        [*CHROMIUM, "--dump-dom", address], capture_output=True, text=True, timeout=120, check=True
    )
    plain = read(page(results(), css=CSS, acceptances=[ACCEPT], made_by="kitctl"))
    for table, rows in plain.rows.items():
        for row in rows:
            for figure in row:
                assert (
                    f'data-value="{figure!r}"' in done.stdout or f'data-value="{figure:g}"' in done.stdout
                ), table


@pytest.mark.slow
def test_light_dark_and_paper(address: str, tmp_path: Path) -> None:
    sizes = []
    for name, more in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
        shot = tmp_path / f"{name}.png"
        argv = [*CHROMIUM, *more, "--window-size=1200,1900", f"--screenshot={shot}", address]
        subprocess.run(argv, capture_output=True, timeout=120, check=True)
        sizes.append(shot.read_bytes())
    assert sizes[0] != sizes[1]
    paper = tmp_path / "page.pdf"
    subprocess.run(
        [*CHROMIUM, f"--print-to-pdf={paper}", address], capture_output=True, timeout=120, check=True
    )
    assert paper.read_bytes().startswith(b"%PDF")

"""The table of findings in the docs is what the book says; ``pytest --accept`` writes it anew."""

from pathlib import Path

from kitctl.edge.host_data import load_host_tables
from kitctl.edge.package_data import package_text
from kitctl.finding import Severity
from kitctl.plan.finding_book import findings_table, read_finding_book

DOCS = Path(__file__).parent.parent.parent / "docs" / "findings.md"
HEAD = """\
# What `kitctl doctor` can find

Made from `kitctl/data/host_findings.yaml`; `pytest tests/plan/test_finding_book.py --accept` writes it anew.
`block` stops before anything is fetched, built or started (exit 3; `--skip CODE` overrules), `warn` costs speed or
safety, `note` is worth knowing. Words in braces are filled in with what was found. The findings on models, engine
settings and the plan itself stand with those commands.

"""


def test_docs_table_is_the_book(accept: bool) -> None:
    wanted = HEAD + "\n".join(findings_table(load_host_tables().book)) + "\n"
    if accept:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(wanted)
    assert DOCS.read_text() == wanted


def test_codes_are_unique_and_words_are_filled() -> None:
    text = package_text("host_findings.yaml")
    book = read_finding_book(text)
    assert len(book.records) == text.count("- code: ")
    found = book.tell("pcie-width-reduced", "seen", where="GPU1", index=1, width=8, most=16)
    assert (found.severity, found.cause) == (Severity.WARN, "GPU1 runs on 8 of 16 PCIe lanes")
    assert (found.evidence, found.where) == (("seen",), "GPU1")

"""Which findings can a host or a rendered stack give, how bad is each, and in which words?"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kitctl.finding import Finding, Severity
from kitctl.kit.yaml_reader import read_yaml


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of finding. ``cause`` and ``remedy`` hold ``{names}`` that the case fills."""

    code: str
    severity: Severity
    fault: str
    cause: str
    remedy: str


class _BookFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: str
    findings: tuple[FindingRecord, ...]


class FindingBook:
    """All kinds of finding by code."""

    def __init__(self, records: tuple[FindingRecord, ...]) -> None:
        self.records: Mapping[str, FindingRecord] = {record.code: record for record in records}

    def tell(
        self,
        code: str,
        *evidence: str,
        where: str | None = None,
        severity: Severity | None = None,
        **values: object,
    ) -> Finding:
        """The finding ``code`` with its words filled in; ``severity`` where the case differs from the book."""
        record = self.records[code]
        return Finding(
            code=code,
            severity=severity or record.severity,
            cause=record.cause.format_map(values),
            remedy=record.remedy.format_map(values),
            evidence=evidence,
            where=where,
        )


def read_finding_book(text: str, *, source: str = "host_findings.yaml") -> FindingBook:
    """The book in ``text``. Raises msgspec.ValidationError for a record that is not whole."""
    file = msgspec.convert(read_yaml(text, source=source), _BookFile)
    return FindingBook(file.findings)


def findings_table(book: FindingBook) -> list[str]:
    """The book as a Markdown table for the docs, in the book's order."""
    rows = ["| code | severity | cause | remedy | seen in |", "|---|---|---|---|---|"]
    for record in book.records.values():
        cells = (f"`{record.code}`", record.severity, record.cause, record.remedy, record.fault)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows

"""How is the outcome of a verification told, to a person and to a program?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, all_blocking, finding_lines
from kitctl.store.sizes import duration_text, size_text
from kitctl.store.verdict import FileVerdict


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """One model's verification. ``hashed_bytes`` were read and hashed now, the rest was proven before."""

    repo: str
    commit: str | None
    folder: str
    file_count: int
    size_bytes: int
    hashed_bytes: int
    seconds: float
    verdicts: tuple[FileVerdict, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found."""
        return not self.verdicts


def require_whole(report: VerifyReport) -> None:
    """Raises KitError ``local-model-broken`` (exit 5) for a folder of the user's that is not what it should be."""
    if not report.ok:
        raise KitError(
            "local-model-broken",
            f"{report.folder} is not {report.repo} whole and as locked",
            evidence=tuple(f"{verdict.path} {verdict.cause}" for verdict in report.verdicts[:8]),
            remedy="restore the files, or name it differently with --name if it is another model",
            exit_code=Exit.FETCH,
        )


def require_ready(report: VerifyReport) -> None:
    """Raises KitError ``model-not-ready`` (exit 3) when a model may not be fetched and is not whole."""
    if not report.ok:
        raise KitError(
            "model-not-ready",
            f"{report.repo} is not whole in the store, and nothing is to be fetched",
            evidence=tuple(f"{verdict.path} {verdict.cause}" for verdict in report.verdicts[:8]),
            remedy=report.findings[0].remedy,
            exit_code=Exit.REFUSED,
        )


def verify_json(reports: Sequence[VerifyReport], *, store: str, level: str) -> dict[str, object]:
    """The contract ``kitctl.models-verify/1``."""
    return {
        "schema": "kitctl.models-verify/1",
        "store": store,
        "level": level,
        "ok": all(report.ok for report in reports),
        "models": [_model_json(report) for report in reports],
        "findings": [msgspec.to_builtins(finding) for finding in _failures(reports)],
    }


def _model_json(report: VerifyReport) -> dict[str, object]:
    return {
        "name": report.repo,
        "ok": report.ok,
        "commit": report.commit,
        "folder": report.folder,
        "files": report.file_count,
        "size_bytes": report.size_bytes,
        "hashed_bytes": report.hashed_bytes,
        "seconds": round(report.seconds, 3),
        "faults": [
            {"path": v.path, "code": str(v.fault), "cause": v.cause, "evidence": list(v.evidence)}
            for v in report.verdicts
        ],
    }


def verify_lines(reports: Sequence[VerifyReport]) -> tuple[str, ...]:
    """The same as text, the findings last."""
    lines = [_line(report) for report in reports]
    return (*lines, *finding_lines(_failures(reports)))


def _failures(reports: Sequence[VerifyReport]) -> tuple[Finding, ...]:
    return all_blocking(finding for report in reports for finding in report.findings)


def _line(report: VerifyReport) -> str:
    if not report.ok:
        count = len({verdict.path for verdict in report.verdicts})
        return f"{report.repo}: {count} of {report.file_count} files are not as models.lock names them"
    size = size_text(report.size_bytes)
    if not report.hashed_bytes:
        return f"{report.repo}: {report.file_count} files, {size}, in order ({duration_text(report.seconds)})"
    rate = size_text(report.hashed_bytes / max(report.seconds, 1e-3))
    took = duration_text(report.seconds)
    return f"{report.repo}: {report.file_count} files, {size}, proven in {took} ({rate}/s)"

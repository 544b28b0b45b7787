"""An image's record as lines for a person."""

from __future__ import annotations

from kitctl.kit.image_record import ImageRecord, Smoke

_GB = 1e9


def record_lines(record: ImageRecord) -> tuple[str, ...]:
    """Name, size layer by layer, times, and what the smoke test found."""
    times = ", ".join(f"{phase} {value:.0f} s" for phase, value in record.seconds.items())
    return (
        f"image   {record.reference}",
        f"id      {record.image_id}",
        f"base    {record.base} ({record.base_kind})",
        f"size    {record.size_bytes / _GB:.2f} GB in {len(record.layers)} layers{f'; {times}' if times else ''}",
        *(f"  {layer.size_bytes / _GB:6.3f} GB  {layer.step[:90]}" for layer in record.layers),
        *smoke_lines(record.smoke),
        *(f"pushed  {name}@{digest}" for name, digest in record.pushed.items()),
    )


def smoke_lines(smoke: Smoke | None) -> tuple[str, ...]:
    """Each check with what it saw; failures are marked."""
    if smoke is None:
        return ("smoke   not run",)
    return (
        f"smoke   {'passed' if smoke.ok else 'FAILED'} ({smoke.at})",
        *(
            f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail} ({check.seconds:.1f} s)"
            for check in smoke.checks
        ),
    )

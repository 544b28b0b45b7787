"""Room is judged a file system, with all that goes onto it and a margin."""

from kitctl.finding import Severity
from kitctl.store.space import SpaceNeed, judge_space

GB = 10**9


def need(purpose: str, device: int, free: int, needed: int) -> SpaceNeed:
    return SpaceNeed(purpose=purpose, path=f"/{purpose}", device=device, free_bytes=free, needed_bytes=needed)


def test_the_drafter_fits_a_disk_on_which_the_target_does_not() -> None:
    """The reference case's disk: 29 GB free."""
    assert judge_space([need("drafter", 1, 29 * GB, int(6.5 * GB))]) == ()
    (finding,) = judge_space([need("target", 1, 29 * GB, 500 * GB)])
    assert (finding.code, finding.severity) == ("disk-full", Severity.BLOCK)
    assert finding.cause == "/target has 29.0 GB free, 525 GB are needed: 496 GB too little"
    assert finding.evidence == ("target in /target: 500 GB",)


def test_two_purposes_on_one_file_system_are_added_up() -> None:
    both = [need("store", 1, 100 * GB, 60 * GB), need("images", 1, 100 * GB, 50 * GB)]
    (finding,) = judge_space(both)
    assert finding.evidence == ("store in /store: 60.0 GB", "images in /images: 50.0 GB")
    assert judge_space([need("store", 1, 100 * GB, 60 * GB), need("images", 2, 100 * GB, 50 * GB)]) == ()


def test_a_margin_is_kept() -> None:
    assert judge_space([need("store", 1, 104, 100)]) != ()
    assert judge_space([need("store", 1, 105, 100)]) == ()


def test_nothing_to_write_needs_no_room() -> None:
    assert judge_space([need("store", 1, 0, 0)]) == ()

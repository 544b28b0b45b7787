import pytest

from kitctl.plan.releases import is_within, release_key


def test_post_releases_come_after_their_release_and_before_the_next() -> None:
    ordered = ["0.5.9", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.16", "0.5.23", "0.6.0"]
    assert sorted(reversed(ordered), key=release_key) == ordered


@pytest.mark.parametrize(
    ("release", "since", "until", "expected"),
    [
        ("0.5.16", None, None, True),
        ("0.5.16", "0.5.16", None, True),
        ("0.5.16", None, "0.5.16", False),
        ("0.5.13.post1", None, "0.5.14", True),
        ("0.5.13.post1", "0.5.14", None, False),
    ],
)
def test_ranges_include_their_start_and_exclude_their_end(
    release: str, since: str | None, until: str | None, expected: bool
) -> None:
    assert is_within(release, since=since, until=until) is expected

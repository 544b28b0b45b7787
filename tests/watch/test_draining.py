"""How many requests a stopping server still has is told when it changes, with the second at which they are cut off."""

from kitctl.watch.draining import Drain

LINE = "[2026-11-29 20:02:03] Gracefully exiting... Remaining number of requests {}. Remaining requests x."


def test_a_change_is_told_once() -> None:
    before = Drain(grace_s=60)
    two = before.saw(LINE.format(2))
    assert two.news(before, after_s=0.4) == "  2 requests in flight after 0 s; at 60 s they are cut off"
    assert two.saw(LINE.format(2)).news(two, after_s=5.0) is None
    assert two.saw("[2026-11-29 20:02:03] Decode batch") == two
    assert two.saw(LINE.format(0)).news(two, after_s=9.0) is None


def test_a_kill_tells_what_was_lost() -> None:
    drain = Drain(grace_s=60).saw(LINE.format(1))
    assert drain.outcome(was_killed=False) is None
    why = " (SGLang takes new requests to its end: stop the load first)"
    lost = drain.outcome(was_killed=True)
    assert lost == f"it did not end within 60 s and was killed; 1 request may be lost{why}"
    unknown = Drain(grace_s=10).outcome(was_killed=True)
    assert unknown == f"it did not end within 10 s and was killed; whatever was in flight may be lost{why}"

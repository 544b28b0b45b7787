"""kitctl tune on real containers whose speed is planted: it finds the best settings, goes on after a kill, adopts."""

import signal
import time
from pathlib import Path

import pytest
from campaign.series import plant
from kitctl_process import KitUser
from stub_speed.image import speed_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]
# The bests lie off the grid, so no two settings are as fast: noise alone would decide between such.
SURFACE = '{"--chunked-prefill-size": [4500, 1.0], "--max-running-requests": [20, 1.0]}'
TRIALS = 10


def words(user: KitUser, *more: str) -> tuple[str, ...]:
    vary = ("engine.chunked_prefill_size=1024,2048,4096,8192", "engine.max_running_requests=4,16,64")
    spaces = [word for one in vary for word in ("--vary", one)]
    load = (
        "--at",
        "2",
        "--trials",
        str(TRIALS),
        "--repeats",
        "2",
        "--requests",
        "4",
        "--output-tokens",
        "16",
    )
    place = ("--name", user.name, "--port", str(user.port))
    return ("tune", "planted", *load, *spaces, *place, *more)


def test_the_planted_best_of_12_settings_is_found_within_10_trials_over_a_kill(kit_user: KitUser) -> None:
    plant(kit_user, speed_image(), "planted", STUB_TOKEN_MS="6", STUB_SURFACE=SURFACE)
    journal = kit_user.state / "searches" / kit_user.name / "journal.jsonl"
    run = kit_user.start(*words(kit_user, "--quiet"))
    while not journal.is_file() or journal.read_bytes().count(b'"type":"judged"') < 3:
        assert run.process.poll() is None, run.process.communicate()
        time.sleep(0.2)
    run.send(signal.SIGKILL)
    run.process.communicate()
    done = kit_user.run(*words(kit_user, "--adopt", "tuned"), timeout_s=600)
    assert done.returncode == 0, done.stderr
    found = kit_user.json(*words(kit_user))
    assert len(found["trials"]) == TRIALS
    assert found["best"]["settings"] == {
        "engine.chunked_prefill_size": 4096,
        "engine.max_running_requests": 16,
    }
    assert len({str(trial["settings"]) for trial in found["trials"]}) == TRIALS
    assert "stopped" in {trial["outcome"] for trial in found["trials"]}
    adopted = (Path(kit_user.home) / "config" / "kitctl" / "stacks" / "tuned.yaml").read_text()
    assert "chunked_prefill_size: 4096" in adopted
    assert kit_user.leftovers() == []

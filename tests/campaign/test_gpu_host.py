"""A campaign on a host with GPUs: they are reserved, seen empty again after every stack, and a matrix is measured."""

from pathlib import Path

import pytest
from campaign.series import status, words
from gpuhost.gpu_host import GpuHost
from gpuhost.test_reservations import user_of
from stub_speed.image import speed_image

from kitctl.campaign.events import Down
from kitctl.campaign.journal import read_journal

pytestmark = pytest.mark.docker
STACK = """\
summary: planted speed on two GPUs
model: kitctl/demo
image: {{reference: "{image}"}}
parallel: {{tp: 2}}
engine: {{context_length: 2048}}
serve: {{model_name: demo, start_period_s: 60}}
environment: {{STUB_TOKEN_MS: "8"}}
"""
CAMPAIGN = """\
summary: CUDA graphs on and off
stacks: [planted]
matrix: {engine.graphs: ["on", "off"]}
repeats: 1
loads: [{name: random, dataset: random, concurrency: [2], output_tokens: 16}]
"""


def test_gpus_are_reserved_and_seen_empty_after_each_configuration(gpu_host: GpuHost, tmp_path: Path) -> None:
    user = user_of(gpu_host, tmp_path)
    image = speed_image()
    gpu_host.copy_image(image)
    user.write_config("stacks/planted.yaml", STACK.format(image=image))
    path = tmp_path / f"{user.name}.yaml"
    path.write_text(CAMPAIGN)
    node = user.home / "dev" / "nvidia4"
    run = user.start(*words(user, str(path), "--gpus", "4,5"))
    run.wait_for("ready")
    node.write_text("22000\n")
    run.wait_for("waiting up to 60 s: GPU 4 holds 22000 MiB more than before the start")
    node.write_text("")
    assert run.end(timeout_s=400) == 0, run.said
    told = status(user)
    arms = ["planted[graphs=on]", "planted[graphs=off]"]
    assert told["done"] == sorted(f"{arm} bench random C=2 #1" for arm in arms)
    raw = (user.state / "campaigns" / user.name / "journal.jsonl").read_bytes()
    downs = [entry.event for entry in read_journal(raw, name="j").entries if isinstance(entry.event, Down)]
    assert [(down.arm, down.gpu_memory_free) for down in downs] == [(arm, True) for arm in arms]

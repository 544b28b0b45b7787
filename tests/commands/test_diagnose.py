"""kitctl diagnose reads a file or stdin and prints the promised JSON, without any container engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kitctl_process import KitUser

LOGS = Path(__file__).parent.parent / "cases" / "logs"
NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}


def test_json_of_a_known_failure(kit_user: KitUser) -> None:
    got = kit_user.json("diagnose", str(LOGS / "B17b.log"))
    assert got == {
        "schema": "kitctl.diagnose/1",
        "subject": str(LOGS / "B17b.log"),
        "diagnoses": [
            {
                "code": "nccl-buffers-oom-lower-mem-fraction",
                "severity": "cause",
                "cause": "NCCL found no GPU memory left for its own buffers",
                "evidence": ["NCCL error: Failed to CUDA calloc 10485760 bytes"],
                "remedy": "lower engine.mem_fraction_static by 0.02, and keep a NCCL_GRAPH_FILE away",
                "rank": None,
                "line": 1,
                "ladder": [
                    {
                        "why": "NCCL's buffers lie outside the fraction that the engine takes for itself",
                        "changes": [
                            {
                                "path": "engine.mem_fraction_static",
                                "to": None,
                                "add": -0.02,
                                "times": None,
                                "start": 0.85,
                                "least": 0.5,
                                "most": None,
                            }
                        ],
                    }
                ],
                "source": "local-inference-lab/rtx6kpro, NCCL tuning",
            }
        ],
    }


@pytest.mark.parametrize(("name", "codes"), [("B01.log", ["driver-too-old-for-image"]), ("B19.log", [])])
def test_stdin(name: str, codes: list[str], kit_user: KitUser) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kitctl", "diagnose", "-", "--json"],
        input=(LOGS / name).read_bytes() + b"\xff\n",
        env=kit_user.env | NO_ENGINE,
        capture_output=True,
        check=True,
    )
    assert [found["code"] for found in json.loads(done.stdout)["diagnoses"]] == codes


def test_text_of_a_log_without_a_failure(kit_user: KitUser) -> None:
    done = kit_user.run("diagnose", str(LOGS / "healthy-cpu-stopped.log"))
    assert (done.returncode, done.stdout) == (
        0,
        f"{LOGS / 'healthy-cpu-stopped.log'}: nothing wrong is seen\n",
    )


def test_the_containers_end_may_be_told_beside_a_file(kit_user: KitUser, tmp_path: Path) -> None:
    log = tmp_path / "silent.log"
    log.write_text("[2026-11-20 09:00:00] server_args=ServerArgs(model_path='/m')\n")
    got = kit_user.json("diagnose", str(log), "--exit-code", "137", "--oom-killed")
    assert [found["code"] for found in got["diagnoses"]] == ["host-oom-killer"]


def test_a_file_that_is_not_there(kit_user: KitUser) -> None:
    done = kit_user.run("diagnose", "--file", "/nonexistent/engine.log")
    assert done.returncode == 2
    assert "(file-unreadable)" in done.stderr

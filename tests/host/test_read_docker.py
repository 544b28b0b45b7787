"""The docker command line is read into engine, containers and images; a dead daemon is no engine without GPUs."""

import json
from pathlib import Path

from kitctl.host.facts import Container, ContainerEngine, Unknown
from kitctl.host.read_docker import (
    LocalImage,
    lacks_gpu_driver,
    read_api_version,
    read_containers,
    read_docker_info,
    read_images,
    read_plugin_version,
    refuses_rlimit,
)

OUTPUTS = Path(__file__).parent.parent / "cases" / "tool-outputs"


def test_engine_without_nvidia() -> None:
    text = (OUTPUTS / "docker-26.1.5-no-nvidia.info.json").read_text()
    engine = read_docker_info(text, exit_code=0, stderr="")
    assert engine == ContainerEngine(
        version="26.1.5+dfsg1",
        runtimes=("io.containerd.runc.v2", "runc"),
        default_runtime="runc",
        cgroup_driver="cgroupfs",
        cgroup_version="1",
        rootless=False,
    )


def test_a_daemon_that_is_down_is_unknown_though_its_json_is_whole() -> None:
    text = (OUTPUTS / "docker-daemon-down.info.json").read_text()
    stderr = (OUTPUTS / "docker-daemon-down.info.stderr.txt").read_text()
    assert read_docker_info(text, exit_code=1, stderr=stderr) == Unknown(reason=stderr.strip())
    assert isinstance(read_docker_info(text, exit_code=0, stderr=""), Unknown)
    assert isinstance(read_docker_info("", exit_code=0, stderr=""), Unknown)


def test_cdi_devices_and_runtimes_of_a_new_engine() -> None:
    info = {
        "ServerVersion": "28.5.2",
        "Runtimes": {"runc": {}, "nvidia": {}},
        "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "other", "ID": "x"}],
        "SecurityOptions": ["name=seccomp", "name=rootless"],
    }
    engine = read_docker_info(json.dumps(info), exit_code=0, stderr="")
    assert isinstance(engine, ContainerEngine)
    assert (engine.cdi_devices, engine.gpu_driver, engine.rootless) == (("nvidia.com/gpu=0",), "nvidia", True)


def test_plugin_and_api_versions() -> None:
    assert read_plugin_version("5.6.1\n") == "5.6.1"
    assert read_plugin_version("v2.40.3") == "2.40.3"
    assert read_plugin_version("github.com/docker/buildx 0.29.1+ds1 0.29.1+ds1-4\n") == "0.29.1"
    assert read_api_version('{"Server": {"ApiVersion": "1.51"}}') == "1.51"
    assert read_api_version("") is None


def test_containers_with_their_ports_and_stack() -> None:
    row = {
        "ID": "ab" * 32,
        "Names": "kitctl-ep4-engine-1",
        "Image": "kitctl/sglang:1",
        "Labels": "com.docker.compose.project=kitctl-ep4,io.kitctl.stack=ep4",
        "Ports": "127.0.0.1:30001->30000/tcp, 0.0.0.0:8000-8001->8000-8001/tcp, 9000/tcp",
    }
    assert read_containers(json.dumps(row) + "\n") == (
        Container(
            id="ab" * 32,
            name="kitctl-ep4-engine-1",
            image="kitctl/sglang:1",
            project="kitctl-ep4",
            stack="ep4",
            ports=(8000, 8001, 30001),
        ),
    )
    assert read_containers("") == ()
    assert isinstance(read_containers("no json"), Unknown)


def test_images_smallest_first_and_without_nameless_ones() -> None:
    rows = [
        {"Repository": "big", "Tag": "1", "Size": "10.5GB"},
        {"Repository": "small", "Tag": "1", "Size": "3.07MB"},
        {"Repository": "<none>", "Tag": "<none>", "Size": "1B"},
    ]
    text = "\n".join(json.dumps(row) for row in rows)
    assert read_images(text) == (
        LocalImage(reference="small:1", size_bytes=3070000),
        LocalImage(reference="big:1", size_bytes=10500000000),
    )


def test_refusals_are_told_by_the_engines_own_words() -> None:
    assert lacks_gpu_driver('could not select device driver "" with capabilities: [[gpu]]')
    assert lacks_gpu_driver("unknown or invalid runtime name: nvidia")
    assert not lacks_gpu_driver('exec: "true": executable file not found in $PATH')
    assert refuses_rlimit("runc create failed: error setting rlimit type 8: operation not permitted")
    assert not refuses_rlimit("No such image: x")

"""What is asked of a host, with which argv and time limit? Data only; readers turn the answers into facts.

Every probe is read-only and may fail alone. Machine formats are asked for wherever the tool has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitctl.host.facts import ContainerEngine

GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "compute_cap",
    "memory.total",
    "memory.used",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "power.limit",
    "power.max_limit",
    "mig.mode.current",
)
APP_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
_CSV = "--format=csv,noheader,nounits"
_PACKAGE = "${db:Status-Want} ${Package} ${Version}\\n"
_DRIVER_PACKAGES = ("nvidia-driver-*", "libnvidia-compute-*", "nvidia-dkms-*", "nvidia-kernel-*")


TOOL_MISSING = "is not there"

# The engine's lists are whole or nothing: 7 of 200 lists of images failed while images were removed (28.5.2).
_GONE = "not found"

# The columns of `docker ps` that are read. `{{json .}}` would ask for sizes as well, and then the whole list fails
# when one container is removed meanwhile (measured: Docker Engine 28.5.2, "rw layer snapshot not found").
_CONTAINER_COLUMNS = ("ID", "Names", "Image", "Labels", "Ports")
_CONTAINER_ROW = ",".join(f'"{column}":{{{{json .{column}}}}}' for column in _CONTAINER_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One question: a name for its answer, the argv, and how long an answer may take.

    ``again_on``: what a failed answer says when asking again is right, because something went away while it was read.
    """

    name: str
    argv: tuple[str, ...]
    timeout_s: float = 10.0
    again_on: str | None = None

    def is_worth_repeating(self, exit_code: int | None, stderr: str) -> bool:
        """Whether an answer failed for a reason that has passed when it is asked again."""
        return exit_code not in (0, None) and self.again_on is not None and self.again_on in stderr


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a probe said. ``exit_code`` is ``None`` when it could not run or gave no answer in time."""

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    failure: str | None = None
    wall_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it ran and exited 0."""
        return self.exit_code == 0

    def why(self) -> str:
        """In one line: what was run and what came instead of an answer."""
        said = next((line for line in f"{self.stderr}\n{self.stdout}".splitlines() if line.strip()), "")
        what = self.failure or said.strip() or f"exit code {self.exit_code}"
        words = [word.partition("=")[0] for word in self.argv[:3] if not word.startswith("--format")]
        return f"{' '.join(words)}: {what}"

    @property
    def is_tool_missing(self) -> bool:
        """Whether the tool is not there, rather than refusing or hanging."""
        return self.exit_code is None and (self.failure or "").endswith(TOOL_MISSING)


Answers = Mapping[str, Answer]


def gpu_probes() -> tuple[Probe, ...]:
    """What nvidia-smi is asked; also run inside a container, where the driver's tools are injected."""
    return (
        gpu_query(GPU_FIELDS),
        Probe(name="smi-xml", argv=("nvidia-smi", "-q", "-x"), timeout_s=20),
        Probe(name="smi-list", argv=("nvidia-smi", "-L")),
        Probe(name="smi-version", argv=("nvidia-smi", "--version")),
        Probe(name="smi-apps", argv=("nvidia-smi", f"--query-compute-apps={','.join(APP_FIELDS)}", _CSV)),
        Probe(name="topology", argv=("nvidia-smi", "topo", "-m")),
        Probe(name="p2p-read", argv=("nvidia-smi", "topo", "-p2p", "r")),
        Probe(name="p2p-write", argv=("nvidia-smi", "topo", "-p2p", "w")),
        Probe(name="nvlink", argv=("nvidia-smi", "nvlink", "-s")),
    )


def gpu_query(fields: Iterable[str]) -> Probe:
    """The query of ``fields``; repeated without a field that an old driver does not know."""
    return Probe(name="smi-query", argv=("nvidia-smi", f"--query-gpu={','.join(fields)}", _CSV))


def host_probes(disks: Iterable[str], *, root: str = "") -> tuple[Probe, ...]:
    """What the host's kernel, files and tools are asked. ``root``: where its file system is mounted."""
    read = ("grep", "-s", "")
    return (
        Probe(name="uname", argv=("uname", "-sr")),
        Probe(name="os-release", argv=("cat", f"{root}/etc/os-release")),
        Probe(name="cmdline", argv=("cat", "/proc/cmdline")),
        Probe(name="meminfo", argv=("cat", "/proc/meminfo")),
        Probe(name="cpuinfo", argv=("grep", "-E", "^(processor|vendor_id)", "/proc/cpuinfo")),
        Probe(name="module", argv=("cat", "/proc/driver/nvidia/version")),
        Probe(name="packages", argv=("dpkg-query", "-W", "-f", _PACKAGE, *_DRIVER_PACKAGES)),
        Probe(name="numa", argv=(*read, "-r", "--include=cpulist", f"{root}/sys/devices/system/node/")),
        Probe(name="shm", argv=("df", "-P", "-k", f"{root}/dev/shm")),
        Probe(name="listeners", argv=("ss", "-H", "-t", "-l", "-n", "-p")),
        Probe(name="tcp", argv=("cat", "/proc/net/tcp", "/proc/net/tcp6")),
        Probe(name="fabric-manager", argv=("systemctl", "is-active", "nvidia-fabricmanager")),
        Probe(name="lspci", argv=("lspci", "-D", "-vvv"), timeout_s=15),
        Probe(name="dmesg", argv=("dmesg",)),
        Probe(name="cdi", argv=("nvidia-ctk", "cdi", "list")),
        Probe(name="toolkit", argv=("nvidia-ctk", "--version")),
        Probe(name="clock", argv=("date", "-u", "+%s")),
        *disk_probes(disks, root=root),
    )


def disk_name(path: str) -> str:
    """The name of the answer on one path's disk."""
    return f"disk:{path}"


def disk_probes(disks: Iterable[str], *, root: str = "") -> tuple[Probe, ...]:
    """One probe for each path's disk."""
    return tuple(_disk_probe(path, root) for path in dict.fromkeys(disks))


def _disk_probe(path: str, root: str) -> Probe:
    """Free space at ``path`` or, where it does not exist yet, at its nearest parent: the first line given."""
    whole = PurePosixPath(f"{root}{path}")
    places = tuple(str(place) for place in (whole, *whole.parents) if str(place).startswith(root or "/"))
    return Probe(name=disk_name(path), argv=("df", "-P", "-k", *places))


def engine_probes() -> tuple[Probe, ...]:
    """What the docker command line is asked about the engine; it runs here, whatever host the engine is on."""
    return (
        Probe(name="docker-info", argv=("docker", "info", "--format", "{{json .}}")),
        Probe(name="docker-version", argv=("docker", "version", "--format", "{{json .}}")),
        Probe(name="compose", argv=("docker", "compose", "version", "--short")),
        Probe(name="buildx", argv=("docker", "buildx", "version")),
        Probe(
            name="containers",
            argv=("docker", "ps", "--no-trunc", "--format", f"{{{_CONTAINER_ROW}}}"),
            again_on=_GONE,
        ),
        Probe(name="images", argv=("docker", "image", "ls", "--format", "{{json .}}"), again_on=_GONE),
    )


def detail_probes(pci_ids: Iterable[str], pids: Iterable[int], *, root: str = "") -> tuple[Probe, ...]:
    """What can be asked once GPUs and their processes are known: their NUMA nodes, CPUs and containers."""
    devices = [f"{root}/sys/bus/pci/devices/{pci}" for pci in pci_ids]
    sysfs = tuple(f"{device}/{name}" for device in devices for name in ("numa_node", "local_cpulist"))
    cgroups = tuple(f"/proc/{pid}/cgroup" for pid in pids)
    read = ("grep", "-s", "-H", "")
    found = [Probe(name="gpu-sysfs", argv=(*read, *sysfs))] if sysfs else []
    return (*found, *([Probe(name="cgroups", argv=(*read, *cgroups))] if cgroups else []))


def trial_probe(image: str, *, words: tuple[str, ...], name: str) -> Probe:
    """A container of a local image that ends at once: does the engine grant what ``words`` ask for?"""
    argv = ("docker", "run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "true")
    return Probe(name=name, argv=(*argv, *words, image), timeout_s=20)


TRIALS: Mapping[str, tuple[str, ...]] = {
    "trial-hook": ("--gpus", "all"),
    "trial-memlock": ("--ulimit", "memlock=-1:-1"),
    "trial-nofile": ("--ulimit", "nofile=1048576:1048576"),
    "trial-stack": ("--ulimit", "stack=67108864:67108864"),
}


def gpu_words(engine: ContainerEngine | None, *, may_try: bool) -> tuple[tuple[str, ...], ...]:
    """How a container asks this engine for all GPUs: the ways to take, one after another until one works.

    ``may_try``: also try when nothing says that the engine has a way; else only the way without GPUs is left.
    """
    hook = ("--gpus", "all", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    cdi = ("--device", "nvidia.com/gpu=all")
    known = {"nvidia": (hook,), "cdi": (cdi,), "none": ((),)}
    unsettled = (hook, cdi, ()) if may_try else ((),)
    return known.get(engine.gpu_driver or "", unsettled) if engine is not None else unsettled

"""Kernel files and small tools are read into facts."""

from kitctl.host.facts import Container, Disk, Listener, NumaNode
from kitctl.host.read_proc import (
    read_cgroups,
    read_cpuinfo,
    read_disk,
    read_gpu_sysfs,
    read_kernel_gpu_errors,
    read_meminfo,
    read_numa,
    read_os_release,
    read_proc_tcp,
    read_ss,
    sysfs_pci_id,
    with_containers,
)

DF = """\
Filesystem     1024-blocks      Used Available Capacity Mounted on
/dev/vda         1000000000 970000000  29000000      98% /
tmpfs                 65536         0     65536       0% /dev/shm
"""
SS = """\
LISTEN 0      4096      127.0.0.1:30001      0.0.0.0:*    users:(("docker-proxy",pid=812,fd=7))
LISTEN 0      4096              *:8000             *:*    users:(("python3",pid=4711,fd=12))
LISTEN 0      128            [::]:22            [::]:*
LISTEN 0      128   127.0.0.53%lo:53         0.0.0.0:*
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7531 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:7532 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 3
"""
ENGINE = Container(id="ab" * 32, name="kitctl-ep4-engine-1", ports=(30001, 9000))


def test_memory_system_and_cpus() -> None:
    assert read_meminfo("MemTotal:       263858172 kB\nMemAvailable:   1000 kB\n") == {
        "MemTotal": 263858172 * 1024,
        "MemAvailable": 1024000,
    }
    assert read_os_release('NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n') == "Ubuntu 24.04.3 LTS"
    cpus = "processor\t: 0\nvendor_id\t: AuthenticAMD\nprocessor\t: 1\nvendor_id\t: AuthenticAMD\n"
    assert read_cpuinfo(cpus) == (2, "AuthenticAMD")
    assert read_cpuinfo("") == (None, None)


def test_the_first_line_is_the_nearest_place_that_exists() -> None:
    assert read_disk(DF, "/models") == Disk(
        path="/models", free_bytes=29000000 * 1024, total_bytes=1000000000 * 1024, filesystem="/dev/vda"
    )
    assert read_disk("", "/models") is None


def test_listeners_with_and_without_holder() -> None:
    assert read_ss(SS) == (
        Listener(port=30001, address="127.0.0.1", pid=812, holder="docker-proxy"),
        Listener(port=8000, address="0.0.0.0", pid=4711, holder="python3"),
        Listener(port=22, address="::"),
        Listener(port=53, address="127.0.0.53"),
    )
    assert read_proc_tcp(TCP) == (Listener(port=30001, address="127.0.0.1"), Listener(port=22, address="::"))


def test_a_published_port_is_held_by_its_container_also_without_a_proxy() -> None:
    named = with_containers(read_ss(SS), (ENGINE,))
    assert named[0].holder == "container kitctl-ep4-engine-1"
    assert named[-1] == Listener(port=9000, holder="container kitctl-ep4-engine-1")


def test_numa_and_gpu_places() -> None:
    text = "/sys/devices/system/node/node1/cpulist:64-127\n/sys/devices/system/node/node0/cpulist:0-63\n"
    assert read_numa(text) == (NumaNode(node=0, cpus="0-63"), NumaNode(node=1, cpus="64-127"))
    assert read_numa("") is None
    sysfs = "/sys/bus/pci/devices/0000:00:06.0/numa_node:-1\n/sys/bus/pci/devices/0000:00:06.0/local_cpulist:0-31\n"
    assert read_gpu_sysfs(sysfs) == {"0000:00:06.0": (None, "0-31")}
    assert sysfs_pci_id("00000000:C1:00.0") == "0000:c1:00.0"
    assert sysfs_pci_id("00010000:C1:00.0") == "0000:c1:00.0"


def test_processes_are_placed_in_containers() -> None:
    text = (
        f"/proc/710/cgroup:0::/system.slice/docker-{'ab' * 32}.scope\n"
        f"/proc/711/cgroup:5:cpu:/docker/{'cd' * 32}\n/proc/712/cgroup:0::/user.slice\n"
    )
    assert read_cgroups(text, (ENGINE,)) == {710: "kitctl-ep4-engine-1", 711: "cdcdcdcdcdcd"}


def test_kernel_log_lines_on_gpus() -> None:
    lines = (
        "[1.0] usb 1-1: new device",
        "[2.0] NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
        "[3.0] pcieport 0000:40:01.1: aer_uncor_status: 0x00000020",
    )
    assert read_kernel_gpu_errors("\n".join(lines)) == lines[1:]

#!/bin/sh
# An imitated nvidia-smi for tests on machines without a GPU. It shows the device nodes that the caller can see,
# so it follows the container's reservation. The @WORDS@ below are filled in by gpu_host.py.
name="@NAME@" memory_mib="@MEMORY_MIB@" capability="@CAPABILITY@" driver="@DRIVER@" cuda="@CUDA@"
links="@LINKS@" count="@COUNT@"
nodes="${IMITATED_GPU_NODES:-/dev}"

minors() {
    for node in "$nodes"/nvidia[0-9]*; do
        [ -e "$node" ] && echo "${node##*/nvidia}"
    done | sort -n
}

uuid() { printf 'GPU-00000000-0000-0000-0000-%012d' "$1"; }

bus() { printf '00000000:%02X:00.0' $((16 + $1)); }

half() { echo $(($1 * 2 / count)); }

link() {
    if [ "$1" = "$2" ]; then echo " X "
    elif [ "$links" = nvlink ]; then echo NV18
    elif [ "$(half "$1")" = "$(half "$2")" ]; then echo PIX
    else echo SYS
    fi
}

no_driver() {
    echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." \
        "Make sure that the latest NVIDIA driver is installed and running."
    echo
    exit 9
}

# In a container whose device rules were put back, opening a node is not permitted; with them there is just no driver.
require_devices() {
    [ -z "$IMITATED_GPU_NODES" ] && [ -e /dev/nvidiactl ] || return 0
    case "$( { : </dev/nvidiactl; } 2>&1 )" in
        *"not permitted"*) echo "Failed to initialize NVML: Unknown Error"; exit 255 ;;
    esac
}

# On the host a test may write into a GPU's node how many MiB are in use, and into "apps" who uses them.
used() { if [ -n "$IMITATED_GPU_NODES" ] && [ -s "$nodes/nvidia$1" ]; then cat "$nodes/nvidia$1"; else echo 0; fi; }

value() { # FIELD INDEX MINOR
    case "$1" in
        index) echo "$2" ;;
        count) echo "$all" | wc -w ;;
        uuid | gpu_uuid) uuid "$3" ;;
        name | gpu_name) echo "$name" ;;
        pci.bus_id | gpu_bus_id) bus "$3" ;;
        driver_version) echo "$driver" ;;
        compute_cap) echo "$capability" ;;
        memory.total) echo "$memory_mib MiB" ;;
        memory.used) echo "$(used "$3") MiB" ;;
        memory.reserved) echo "0 MiB" ;;
        memory.free) echo "$memory_mib MiB" ;;
        pcie.link.gen.current | pcie.link.gen.max | pcie.link.gen.gpumax | pcie.link.gen.hostmax) echo 5 ;;
        pcie.link.width.current | pcie.link.width.max) echo 16 ;;
        power.limit | power.max_limit | power.default_limit | enforced.power.limit) echo "600.00 W" ;;
        power.draw | power.draw.average | power.draw.instant) echo "35.00 W" ;;
        temperature.gpu) echo 35 ;;
        utilization.gpu | utilization.memory) echo "0 %" ;;
        clocks.sm | clocks.gr | clocks.mem | clocks.max.sm) echo "2400 MHz" ;;
        clocks_event_reasons.active | clocks_throttle_reasons.active) echo 0x0000000000000001 ;;
        mig.mode.current | mig.mode.pending) echo Disabled ;;
        persistence_mode | ecc.mode.current | ecc.mode.pending) echo Enabled ;;
        ecc.errors.uncorrected.volatile.total | ecc.errors.uncorrected.aggregate.total) echo 0 ;;
        vbios_version | serial | fabric.state | fabric.status | compute_mode | pstate) echo "[N/A]" ;;
        *) echo "Field \"$1\" is not a valid field to query."; echo; exit 2 ;;
    esac
}

unit() {
    case "$1" in
        memory.*) echo " [MiB]" ;;
        power.* | enforced.power.limit) echo " [W]" ;;
        utilization.*) echo " [%]" ;;
        clocks.*) echo " [MHz]" ;;
    esac
}

row() { # INDEX MINOR
    line=
    for field in $fields; do
        cell=$(value "$field" "$1" "$2") || { echo "$cell"; exit 2; }
        [ -n "$nounits" ] && cell=${cell% MiB} && cell=${cell% W} && cell=${cell% %} && cell=${cell% MHz}
        line="$line${line:+, }$cell"
    done
    echo "$line"
}

header() {
    line=
    for field in $fields; do
        mark=
        [ -z "$nounits" ] && mark=$(unit "$field")
        line="$line${line:+, }$field$mark"
    done
    echo "$line"
}

query() {
    for field in $fields; do value "$field" 0 0 >/dev/null || { value "$field" 0 0; exit 2; }; done
    [ -n "$noheader" ] || header
    index=0
    for minor in $all; do
        if [ -z "$chosen" ] || wanted "$index" "$minor"; then row "$index" "$minor"; fi
        index=$((index + 1))
    done
}

wanted() { # INDEX MINOR
    case ",$chosen," in
        *",$1,"* | *",$(uuid "$2"),"* | *",$(bus "$2"),"*) return 0 ;;
    esac
    return 1
}

list() {
    index=0
    for minor in $all; do
        echo "GPU $index: $name (UUID: $(uuid "$minor"))"
        index=$((index + 1))
    done
}

head_of_matrix() { # FIRST COLUMN, REST
    line="$1"
    index=0
    for minor in $all; do line="$line	GPU$index"; index=$((index + 1)); done
    echo "$line$2"
}

matrix() {
    head_of_matrix "" "	CPU Affinity	NUMA Affinity	GPU NUMA ID"
    index=0
    for from in $all; do
        line="GPU$index"
        for to in $all; do line="$line	$(link "$from" "$to")"; done
        if [ "$(half "$from")" = 0 ]; then echo "$line	0-63	0		N/A"; else echo "$line	64-127	1		N/A"; fi
        index=$((index + 1))
    done
    cat <<'LEGEND'

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
LEGEND
}

peers() {
    head_of_matrix " " "	"
    index=0
    for from in $all; do
        line=" GPU$index"
        for to in $all; do
            if [ "$from" = "$to" ]; then line="$line	X"; else line="$line	OK"; fi
        done
        echo "$line	"
        index=$((index + 1))
    done
    printf '\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n'
    printf '  GNS  = GPU not supported\n  TNS  = Topology not supported\n  NS   = Not supported\n  U    = Unknown\n'
}

versions() {
    echo "NVIDIA-SMI version  : $driver"
    echo "NVML version        : ${driver%.*}"
    echo "DRIVER version      : $driver"
    echo "CUDA Version        : $cuda"
}

all=$(minors | tr '\n' ' ')
chosen='' fields='' noheader='' nounits='' verb=summary
while [ $# -gt 0 ]; do
    case "$1" in
        -L | --list-gpus) verb=list ;;
        --version) verb=versions ;;
        -i | --id) chosen=$2; shift ;;
        -i=* | --id=*) chosen=${1#*=} ;;
        --query-gpu=*) verb=query; fields=$(echo "${1#*=}" | tr ',' ' ') ;;
        --query-compute-apps=*) verb=apps; fields=$(echo "${1#*=}" | tr ',' ' ') ;;
        --format=*)
            case ",${1#*=}," in *,noheader,*) noheader=1 ;; esac
            case ",${1#*=}," in *,nounits,*) nounits=1 ;; esac
            ;;
        topo) verb=topo_$2$3; shift $(($# > 2 ? 2 : $# - 1)) ;;
        *) echo "ERROR: Option $1 is not recognized. Please run 'nvidia-smi -h'."; echo; exit 2 ;;
    esac
    shift
done
[ -n "$all" ] || no_driver
require_devices
case "$verb" in
    list) list ;;
    versions) versions ;;
    query) query ;;
    apps)
        [ -n "$noheader" ] || header
        if [ -n "$IMITATED_GPU_NODES" ] && [ -e "$nodes/apps" ]; then cat "$nodes/apps"; fi
        ;;
    topo_-m) matrix ;;
    topo_-p2p[rwn]) peers ;;
    summary) echo "NVIDIA-SMI $driver    Driver Version: $driver    CUDA Version: $cuda"; list ;;
    *) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."; exit 2 ;;
esac

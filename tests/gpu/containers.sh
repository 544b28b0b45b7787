#!/bin/sh
# kitctl itself on a GPU host: a real Docker Engine (host_engine.py), GPUs by CDI; the kit's demo pair: up, status, accept,
# quality, a killed rank, down; and a short campaign of the proof's own models.
# usage: containers.sh [--campaign] MODELS BINARIES OUT TREE...
# Needs kitctl and the engine importable by python3 below the folders TREE.
set -u
campaign=''
[ "$1" = --campaign ] && { campaign=1; shift; }
models=$1 binaries=$2 out=$3; shift 3
here=$(cd "$(dirname "$0")" && pwd); kit=$(cd "$here/../.." && pwd)
begun=$(date +%s)
say() { echo "[$(($(date +%s) - begun))] $*"; }
mkdir -p "$out/config/kitctl" "$out/state"
export XDG_CONFIG_HOME="$out/config" XDG_STATE_HOME="$out/state" KITCTL_KIT="$kit" PYTHONPATH="$kit${PYTHONPATH:+:$PYTHONPATH}"
kitctl() { python3 -m kitctl "$@"; }
trees=''
for tree in "$@"; do trees="$trees --tree $tree"; done
seeds=''
for seed in tvm=tvm-ffi triton=triton; do [ -d "/tmp/${seed%%=*}" ] && seeds="$seeds --seed /tmp/$seed"; done
# shellcheck disable=SC2086
python3 "$here/host_engine.py" "$binaries" $trees $seeds || exit 1
say "engine $(docker version --format '{{.Server.Version}}')"
for kind in stacks parts campaigns; do
    mkdir -p "$out/config/kitctl/$kind"
    cp "$here/$kind/"*.yaml "$out/config/kitctl/$kind/"
done
cp "$kit"/compose/stacks/demo*.yaml "$out/config/kitctl/stacks/"
for stack in "$out/config/kitctl/stacks/"*.yaml; do echo 'image: {reference: "proof/host-tree:1"}' >> "$stack"; done
docker run --rm --device nvidia.com/gpu=0 --entrypoint nvidia-smi proof/host-tree:1 -L > "$out/container-nvidia-smi.txt" 2>&1
cat "$out/container-nvidia-smi.txt"
kitctl doctor demo-dflash --json > "$out/doctor.json" 2> "$out/doctor.txt"; say "doctor exit $?"
kitctl up demo-dflash --add no-multicast --gpus 0 --port 30001 --json > "$out/up.json" 2> "$out/up.txt"
code=$?; say "up exit $code"; tail -8 "$out/up.txt"
[ "$code" = 0 ] || exit "$code"
kitctl status demo-dflash --json > "$out/status.json"; say "status exit $?"
docker inspect "$(docker ps -q | head -1)" > "$out/inspect.json"
for temperature in 0 1; do
    kitctl accept demo-dflash --dataset demo --temperature $temperature --json > "$out/accept-T$temperature.json" \
        2> "$out/accept-T$temperature.txt"; say "accept at T=$temperature exit $?"
done
kitctl quality demo-dflash --dataset demo --json > "$out/quality.json" 2> "$out/quality.txt"; say "quality exit $?"
docker exec "$(docker ps -q | head -1)" python3 -c '
import os, pathlib, signal
names = {p: (p / "comm").read_text() for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()}
os.kill(next(int(p.name) for p, name in names.items() if name.startswith("sglang::sched")), signal.SIGKILL)'
sleep 7
kitctl status demo-dflash --json > "$out/status.killed.json"; say "status after a killed scheduler exit $?"
kitctl down demo-dflash --json > "$out/down.json" 2>&1; say "down exit $?"
nvidia-smi --query-gpu=index,memory.used --format=csv,noheader > "$out/memory-after-down.csv"
if [ -n "$campaign" ]; then
    for name in dense copy; do kitctl models add "$models/$name" --name "proof/$name" > /dev/null || exit 1; done
    kitctl campaign run proof --add no-multicast --gpus 0 --port 30001 --json > "$out/campaign.json" 2> "$out/campaign.txt"
    say "campaign exit $?"
    cp -r "$out/state/kitctl/campaigns" "$out/campaigns" 2> /dev/null
fi
say "all done"

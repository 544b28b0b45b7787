#!/bin/sh
# kitctl itself on a GPU host: a real Docker Engine (host_engine.py), GPUs by CDI, up, status, accept, bench beside the
# engine's own client, a killed rank, down, and a short campaign. usage: containers.sh MODELS BINARIES OUT TREE...
# Needs kitctl and the engine importable by python3 below the folders TREE.
set -u
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
for stack in "$out/config/kitctl/stacks/"*.yaml; do echo 'image: {reference: "proof/host-tree:1"}' >> "$stack"; done
for name in dense copy; do kitctl models add "$models/$name" --name "proof/$name" > /dev/null || exit 1; done
docker run --rm --device nvidia.com/gpu=0 --entrypoint nvidia-smi proof/host-tree:1 -L > "$out/container-nvidia-smi.txt" 2>&1
cat "$out/container-nvidia-smi.txt"
kitctl doctor proof-dense-copy --json > "$out/doctor.json" 2> "$out/doctor.txt"; say "doctor exit $?"
kitctl up proof-dense-copy --add no-multicast --gpus 0 --port 30001 --json > "$out/up.json" 2> "$out/up.txt"
code=$?; say "up exit $code"; tail -8 "$out/up.txt"
# 9: it answers, and the canary dislikes answers that repeat, which is all that these models say.
[ "$code" = 0 ] || [ "$code" = 9 ] || exit "$code"
kitctl status proof-dense-copy --json > "$out/status.json"; say "status exit $?"
docker inspect "$(docker ps -q | head -1)" > "$out/inspect.json"
kitctl accept proof-dense-copy --json > "$out/accept.json" 2> "$out/accept.txt"; say "accept exit $?"
load='--random-input-len 128 --random-output-len 256 --random-range-ratio 1 --num-prompts 640 --max-concurrency 16'
for turn in 1 2; do
    kitctl bench proof-dense-copy --concurrency 16 --requests 40 --repeats 1 --ramp-s 0 --output-tokens 256 --seed "turn $turn" \
        -o "$out/bench-$turn.jsonl" > "$out/bench-$turn.txt" 2>&1; say "bench $turn exit $?"
    # shellcheck disable=SC2086
    python3 -m sglang.benchmark.serving --backend sglang --base-url http://127.0.0.1:30001 --model "$models/dense" \
        --dataset-name random-ids $load --seed "$turn" --tokenize-prompt --flush-cache \
        --output-file "$out/engine-bench-$turn.jsonl" > "$out/engine-bench-$turn.txt" 2>&1; say "engine's client $turn exit $?"
done
docker exec "$(docker ps -q | head -1)" python3 -c '
import os, pathlib, signal
names = {p: (p / "comm").read_text() for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()}
os.kill(next(int(p.name) for p, name in names.items() if name.startswith("sglang::sched")), signal.SIGKILL)'
sleep 7
kitctl status proof-dense-copy --json > "$out/status.killed.json"; say "status after a killed scheduler exit $?"
kitctl down proof-dense-copy --json > "$out/down.json" 2>&1; say "down exit $?"
nvidia-smi --query-gpu=index,memory.used --format=csv,noheader > "$out/memory-after-down.csv"
kitctl campaign run proof --add no-multicast --gpus 0 --port 30001 --json > "$out/campaign.json" 2> "$out/campaign.txt"
say "campaign exit $?"
cp -r "$out/state/kitctl/campaigns" "$out/campaigns" 2> /dev/null
say "all done"

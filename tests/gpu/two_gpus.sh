#!/bin/sh
# Two GPUs in one go: MoE over NVLink and with P2P off, the small Kimi with its drafter at tp 2 ep 2, and beside them the
# micro pair's drafter trained anew and served. usage: two_gpus.sh LIMIT_S   (see run_on_host.sh for what must be there)
set -u
limit=$1
begun=$(date +%s)
left() { echo $((limit - $(date +%s) + begun)); }
mkdir -p /tmp/site /tmp/models /tmp/proof /tmp/proof-micro /tmp/tvm /tmp/triton
unpack() { [ -f "$1" ] && python3 -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='fully_trusted')" "$1" "$2"; }
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
unpack .gpu/micro.tar.xz /tmp/models
python3 tests/gpu/train_pair.py /tmp/models --keep-target --steps 1500 --device cuda:1 > /tmp/proof-micro/train.txt 2>&1 &
trainer=$!
python3 tests/gpu/make_models.py /tmp/models --kimi > /tmp/proof/models.txt 2>&1 &
models=$!
unpack .gpu/site.tar.xz /tmp/site; unpack .gpu/tvm.tar.xz /tmp/tvm; unpack .gpu/triton.tar.xz /tmp/triton
export PYTHONPATH=/tmp/site TVM_FFI_CACHE_DIR=/tmp/tvm TRITON_CACHE_DIR=/tmp/triton PYTHONUNBUFFERED=1
export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo SGLANG_HOST_IP=127.0.0.1
python3 -m compileall -q -j 12 /tmp/site/sglang /tmp/site/transformers /tmp/site/openai > /dev/null 2>&1
wait "$models"; echo "models after $(($(date +%s) - begun)) s"
(wait_for_drafter() { while kill -0 "$trainer" 2> /dev/null; do sleep 1; done; }
 wait_for_drafter; tail -2 /tmp/proof-micro/train.txt; echo "drafter after $(($(date +%s) - begun)) s"
 tar cJf "$OUT/micro.tar.xz" -C /tmp/models micro micro-drafter training.json
 python3 tests/gpu/prove.py --models /tmp/models --out /tmp/proof-micro --gpus 1 --limit $(($(left) - 20)) --port-offset 1000 --only micro micro-dflash
 tar cJf "$OUT/proof-micro.tar.xz" -C /tmp --exclude=state proof-micro) &
micro=$!
python3 tests/gpu/prove.py --models /tmp/models --out /tmp/proof --gpus 2 --limit $(($(left) - 20)) --only moe-nvlink moe-pcie kimi-copy-tp2-ep2
tar cJf "$OUT/proof.tar.xz" -C /tmp --exclude=proof/state proof
(cd /tmp/tvm && find . -name '*.so' | tar cJf "$OUT/tvm.tar.xz" -T -)
wait "$micro"
ls -la "$OUT"; echo "all after $(($(date +%s) - begun)) s"

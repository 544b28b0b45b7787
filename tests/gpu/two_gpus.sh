#!/bin/sh
# Two GPUs in one go: MoE over NVLink and with P2P off, the small Kimi with its drafter at tp 2 ep 2, and beside them the
# kit's demo pair on the first GPU. usage: two_gpus.sh LIMIT_S   (see run_on_host.sh for what must be there)
set -u
limit=$1
begun=$(date +%s)
left() { echo $((limit - $(date +%s) + begun)); }
mkdir -p /tmp/site /tmp/models /tmp/proof /tmp/proof-demo /tmp/tvm /tmp/triton
unpack() { [ -f "$1" ] && python3 -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='fully_trusted')" "$1" "$2"; }
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
python3 tests/gpu/make_models.py /tmp/models --kimi > /tmp/proof/models.txt 2>&1 &
models=$!
unpack .gpu/site.tar.xz /tmp/site; unpack .gpu/tvm.tar.xz /tmp/tvm; unpack .gpu/triton.tar.xz /tmp/triton
export PYTHONPATH=/tmp/site TVM_FFI_CACHE_DIR=/tmp/tvm TRITON_CACHE_DIR=/tmp/triton PYTHONUNBUFFERED=1
export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo SGLANG_HOST_IP=127.0.0.1
python3 -m compileall -q -j 12 /tmp/site/sglang /tmp/site/transformers /tmp/site/openai > /dev/null 2>&1
wait "$models"; echo "models after $(($(date +%s) - begun)) s"
(python3 tests/gpu/prove.py --models /tmp/models --out /tmp/proof-demo --gpus 1 --limit $(($(left) - 20)) --port-offset 1000 --only demo demo-dflash
 tar cJf "$OUT/proof-demo.tar.xz" -C /tmp --exclude=state proof-demo) &
demo=$!
python3 tests/gpu/prove.py --models /tmp/models --out /tmp/proof --gpus 2 --limit $(($(left) - 20)) --only moe-nvlink moe-pcie kimi-copy-tp2-ep2
tar cJf "$OUT/proof.tar.xz" -C /tmp --exclude=proof/state proof
(cd /tmp/tvm && find . -name '*.so' | tar cJf "$OUT/tvm.tar.xz" -T -)
wait "$demo"
ls -la "$OUT"; echo "all after $(($(date +%s) - begun)) s"

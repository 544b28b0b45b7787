#!/bin/sh
# Unpack an SGLang site, make the models, prove. usage: run_on_host.sh GPUS LIMIT_S [--kimi] [--wide] [-- CASE...]
# Needs .gpu/site.tar.xz (an unpacked `pip install --target` of the release for this Python) unless sglang imports already,
# and OUT (a folder). Caches of compiled kernels are kept in .gpu/*.tar.xz from run to run.
set -u
gpus=$1 limit=$2; shift 2
more=''
while [ $# -gt 0 ]; do case $1 in --kimi | --wide) more="$more $1" ;; --) shift; break ;; esac; shift; done
begun=$(date +%s)
mkdir -p /tmp/site /tmp/models /tmp/proof /tmp/tvm /tmp/triton
unpack() { [ -f "$1" ] && python3 -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='fully_trusted')" "$1" "$2"; }
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
# shellcheck disable=SC2086
[ -f /tmp/models/laws.json ] || python3 tests/gpu/make_models.py /tmp/models $more > /tmp/proof/models.txt 2>&1 &
models=$!
[ -d /tmp/site/sglang ] || { unpack .gpu/site.tar.xz /tmp/site; unpack .gpu/tvm.tar.xz /tmp/tvm; unpack .gpu/triton.tar.xz /tmp/triton; }
export PYTHONPATH=/tmp/site TVM_FFI_CACHE_DIR=/tmp/tvm TRITON_CACHE_DIR=/tmp/triton PYTHONUNBUFFERED=1
export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo SGLANG_HOST_IP=127.0.0.1
python3 -m compileall -q -j 12 /tmp/site/sglang /tmp/site/transformers /tmp/site/openai > /dev/null 2>&1
echo "site after $(($(date +%s) - begun)) s"
wait $models; cat /tmp/proof/models.txt
echo "models after $(($(date +%s) - begun)) s"
python3 tests/gpu/prove.py --models /tmp/models --out /tmp/proof --gpus "$gpus" --limit $((limit - $(date +%s) + begun)) ${1:+--only "$@"}
tar cJf "$OUT/proof.tar.xz" -C /tmp --exclude=proof/state --exclude='*/shell/api-key' proof
(cd /tmp/tvm && find . -name '*.so' | tar cJf "$OUT/tvm.tar.xz" -T -); tar cJf "$OUT/triton.tar.xz" -C /tmp/triton .
ls -la "$OUT"; echo "all after $(($(date +%s) - begun)) s"

"""The same failure in other words, from other releases and ranks, is still named; look-alikes are not blamed."""

import pytest

from kitctl.edge.failure_book import failure_book
from kitctl.watch.diagnose import diagnose

BOOK = failure_book()

NAMED = [
    ("driver-too-old-for-image", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.1, please update your driver to a newer version, or use an earlier cuda container: unknown"),
    ("driver-too-old-for-image", "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"),
    ("driver-too-old-for-image", "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver"),
    ("driver-too-old-for-ptx", "RuntimeError: CUDA driver error: cudaErrorUnsupportedPtxVersion"),
    ("driver-too-old-for-ptx", "[2026-08-11 08:31:50 TP5 EP2] torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain."),
    ("driver-too-old-for-ptx", "ptxas fatal   : Unsupported .version 9.1; current version is '9.0'"),
    ("image-lacks-gpu-arch", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("image-lacks-gpu-arch", "(Worker_TP2 pid=95) ERROR 01-25 08:22:04 [x.py:1] torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"),
    ("image-lacks-gpu-arch", "/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:235: UserWarning: NVIDIA RTX PRO 6000 Blackwell with CUDA capability sm_120 is not compatible with the current PyTorch installation."),
    ("driver-library-mismatch-reboot", "NVML: Driver/library version mismatch"),
    ("driver-library-mismatch-reboot", "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown"),
    ("driver-library-mismatch-reboot", "NVRM: API mismatch: the client has the version 580.159, but NVRM: this kernel module has the version 570.133."),
    ("nvidia-toolkit-not-configured", 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'),
    ("nvidia-toolkit-not-configured", "Error response from daemon: unknown or invalid runtime name: nvidia"),
    ("cdi-device-missing", "Error response from daemon: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-4fe1, nvidia.com/gpu=7"),
    ("cdi-device-missing", 'Error: setting up CDI devices: unresolvable CDI device nvidia.com/gpu=all'),
    ("compose-count-and-device-ids", 'validating /srv/x/compose.yaml: services.engine.deploy.resources.reservations.devices.0 "count" and "device_ids" attributes are exclusive'),
    ("compose-reservation-invalid", "services.engine.deploy.resources.reservations.devices.0.device_ids.0 must be a string"),
    ("shm-too-small", "gpu1:812:990 [7] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Xa81bq to 33030532 bytes, error: No space left on device (28)"),
    ("shm-too-small", "gpu1:812:990 [7] misc/shmutils.cc:72 NCCL WARN Call to posix_fallocate failed : No space left on device: /dev/shm/nccl-Xa81bq"),
    ("shm-too-small", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."),
    ("shm-too-small", "Bus error (core dumped)"),
    ("shm-too-small", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."),
    ("nccl-first-collective-hang", "[rank3]:[E1129 12:58:15.003 ProcessGroupNCCL.cpp:688] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600033 milliseconds before timing out."),
    ("nccl-first-collective-hang", "(EngineCore_DP0 pid=85) INFO 01-25 08:24:04 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 second(s)."),
    ("p2p-level-5-means-SYS", "gpu1:652:699 [3] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS"),
    ("p2p-level-5-means-SYS", "      NCCL_P2P_LEVEL: \"5\""),
    ("nccl-graph-search-poor-amd", "host:10:200 [5] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 0.100000/0.100000, type SYS/SYS, sameChannels 1"),
    ("nccl-buffers-oom-lower-mem-fraction", "host:10:200 [0] include/alloc.h:228 NCCL WARN Failed to CUDA calloc async 608 bytes"),
    ("nccl-buffers-oom-lower-mem-fraction", "host:10:200 [3] transport/p2p.cc:275 NCCL WARN Cuda failure 2 'out of memory'"),
    ("flashinfer-needs-nvcc", "/bin/sh: 1: nvcc: not found"),
    ("flashinfer-needs-nvcc", "FileNotFoundError: [Errno 2] No such file or directory: ':/usr/local/cuda/bin/nvcc'"),
    ("flashinfer-needs-nvcc", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
    ("flashinfer-needs-nvcc", "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found"),
    ("jit-build-failed-missing-header", "/usr/include/x.cuh:3:10: fatal error: cublasLt.h: No such file or directory\ncompilation terminated.\nninja: build stopped: subcommand failed.\nsubprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/root/.cache']' returned non-zero exit status 1."),
    ("jit-build-killed", "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nninja: build stopped: subcommand failed."),
    ("watchdog-timeout-during-jit-or-hang", "[2026-06-22 16:13:55 TP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n[2026-06-22 16:13:55] Received sigquit from a child process. It usually means the child failed."),
    ("healthcheck-window-shorter-than-load", "dependency failed to start: container kitctl-ep4-engine-1 is unhealthy"),
    ("gpu-occupied-by-other-process", "[2026-06-22 16:13:55 TP3] Scheduler hit an exception: Traceback (most recent call last):\nValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre_model_load_memory=70.1, local_gpu_memory=94.2, local_gpu_memory * 0.9=84.8"),
    ("host-oom-killer", "Memory cgroup out of memory: Killed process 4211 (sglang::schedul) total-vm:91 kB"),
    ("host-oom-killer", "Loading safetensors checkpoint shards:  17% Completed | 11/64 [00:31<02:30,  2.8s/it]\nKilled"),
    ("host-oom-killer", "[2026-06-22 16:13:55] RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."),
    ("rank-killed", "RuntimeError: Rank 0 scheduler died during initialization (exit code: -11). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."),
    ("wrong-hf-cli", "bash: huggingface-cli: command not found"),
    ("wrong-hf-cli", "/bin/sh: 1: huggingface-cli: not found"),
    ("disk-full-during-download", "/opt/venv/lib/python3.12/site-packages/huggingface_hub/file_download.py:651: UserWarning: Not enough free disk space to download the file. The expected file size is: 9949.12 MB."),
    ("disk-full-during-download", "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub/models--a--b/blobs/ab12.incomplete'"),
    ("weights-truncated", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
    ("weights-truncated", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooSmall"),
    ("weights-truncated", "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: header too small"),
    ("weights-truncated", "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization"),
    ("weights-truncated", "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: invalid header length"),
    ("weights-are-lfs-pointer-or-html", "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: header too large"),
    ("model-path-not-found", "cat: can't open 'config.json': No such file or directory"),
    ("model-path-not-found", "OSError: /models does not appear to have a file named config.json. Checkout 'https://huggingface.co//models/tree/main' for available files."),
    ("model-path-not-found", "FileNotFoundError: [Errno 2] No such file or directory: '/models/snapshots/ab/config.json'"),
    ("mount-source-missing", "Error response from daemon: bind source path does not exist: /mnt/models"),
    ("engine-lacks-dflash-for-target", "AttributeError: 'KimiK3ForConditionalGeneration' object has no attribute 'set_dflash_layers_to_capture'"),
    ("engine-lacks-dflash-for-target", "ValueError: Model Foo implements neither set_eagle3_layers_to_capture nor set_dflash_layers_to_capture, one of which is required"),
    ("dflash-cuda-graph-crash", '[2026-05-04 09:08:01 TP2 EP1] Scheduler hit an exception: Traceback (most recent call last):\n  File "/x/sglang/srt/speculative/dflash_worker_v2.py", line 1623, in _draft\nTypeError: \'NoneType\' object is not subscriptable'),
    ("dflash-cuda-graph-crash", '[2026-05-04 09:08:01 TP2] Scheduler hit an exception: Traceback (most recent call last):\n  File "/x/sglang/srt/speculative/dflash_worker.py", line 700, in forward_batch_generation\n  File "/x/sglang/srt/layers/attention/triton_backend.py", line 512, in init_forward_metadata_replay_cuda_graph\nAttributeError: \'NoneType\' object has no attribute \'shape\''),
    ("dflash-cuda-graph-crash", "[2026-05-04 09:00:00] Max running requests is reset to 48\n(EngineCore pid=1) ERROR [dflash.py:1] draft\ntorch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("tp-does-not-divide-heads", "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (6)."),
    ("tp-does-not-divide-heads", '  File "/x/sglang/srt/models/qwen3.py", line 98, in __init__\n    assert self.total_num_heads % attn_tp_size == 0\nAssertionError'),
    ("tp-does-not-fit-fp8-blocks", "ValueError: The input_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."),
    ("tp-does-not-fit-fp8-blocks", "ValueError: Weight input_size_per_partition = 1088 is not divisible by weight quantization block_k = 128."),
    ("ep-does-not-divide-tp", "AssertionError: ep_size * moe_dp_size must be equal to tp_size"),
    ("ep-does-not-divide-tp", "AssertionError: num_experts (384) must be divisible by ep_size (5)"),
    ("cpuset-not-on-this-host", "Error response from daemon: Requested CPUs are not available - requested 0-63,128-191, available: 0-31"),
    ("port-taken-by-container", "Error response from daemon: driver failed programming external connectivity on endpoint x (0): Bind for 0.0.0.0:30001 failed: port is already allocated"),
    ("port-taken-by-host-process", "Error response from daemon: failed to set up container networking: driver failed programming external connectivity on endpoint x: failed to bind host port 127.0.0.1:30001/tcp: address already in use"),
    ("port-taken-host-network", "[2026-11-29 12:44:00] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30001): [errno 98] address already in use"),
    ("internal-port-taken", "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"),
    ("gpus-lost-from-container", "Failed to initialize NVML: Unknown Error"),
    ("no-gpu-in-container", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("no-gpu-in-container", "RuntimeError: No CUDA GPUs are available"),
    ("pcie-link-lost", "[  812.1] pcieport 0000:c0:01.1: device [1022:14ab] aer_uncor_status: 0x00000020"),
    ("gpu-hardware-fault", "NVRM: Xid (PCI:0000:41:00): 48, pid=811, An uncorrectable double bit error (DBE) has been detected"),
    ("gpu-hardware-fault", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"),
    ("nccl-stack-unlimited", "Fatal Python error: Segmentation fault\n  libnccl.so.2(ncclTopoCompute+0x1f)"),
    ("docker-daemon-down", "ERROR: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"),
    ("mem-fraction-too-small", "[2026-11-29 12:54:44 TP5] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ("mem-fraction-too-small", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. mem_fraction_static=0.5"),
    ("cuda-graph-out-of-memory", "[2026-05-08 10:00:00 TP0] Capture cuda graph begin. avail mem=0.99 GB\nException: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("out-of-memory-while-serving", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 3 has a total capacity of 94.97 GiB"),
    ("engine-flag-refused", "launch_server.py: error: unrecognized arguments: --speculative-dflash"),
    ("engine-flag-refused", "sglang serve: error: argument --attention-backend: invalid choice: 'fa9' (choose from 'triton', 'fa3')"),
    ("unknown-speculative-algorithm", "ValueError: Unknown speculative algorithm: DDTREE"),
    ("drafter-settings-refused", "ValueError: DFLASH speculative decoding requires setting --speculative-draft-model-path."),
    ("drafter-settings-refused", "ValueError: Currently DFLASH speculative decoding does not support dp attention."),
    ("drafter-settings-refused", "ValueError: --speculative-draft-window-size must be >= --speculative-num-draft-tokens (block_size). window_size=4, block_size=8."),
    ("drafter-does-not-fit-target", "ValueError: DFLASH target_layer_ids contains an out-of-range layer id. target_layer_ids[5]=58, target_num_layers=40."),
    ("rank-killed", "[2026-11-29 12:56:08] Subprocess scheduler_1 (pid=1701) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ("unknown", "[2026-11-29 12:56:08 TP1] Scheduler hit an exception: Traceback (most recent call last):\nKeyError: 'model.layers.3.mlp.gate'"),
]  # fmt: skip

NOT_BLAMED = [
    "[2026-06-28 13:34:12 TP7] CustomAllReduceV2 is disabled because it's not supported on more than two PCIe-only GPUs.",
    "[2026-06-28 13:34:12 TP7] SymmMemCommunicator: Device capability 12.0 not supported, communicator is not available.",
    "Warning: `huggingface-cli download` is deprecated. Use `hf download` instead.",
    "[2026-11-29 13:41:04] Ignore import error when loading sglang.srt.models.inkling: No module named 'helion'",
    "W1129 15:20:22.144000 8385 torch/utils/cpp_extension.py:140] No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'",
    "[2026-11-29 13:41:25] Failed to load generation config for /m: /m does not appear to have a file named generation_config.json.",
    "host:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
    "host:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1",
    "[2026-11-29 12:48:03] [http_server] Error: DFLASH speculative decoding does not support return_logprob yet.",
    "[2026-11-29 12:48:03] INFO:     127.0.0.1:1 - \"GET /health HTTP/1.1\" 503 Service Unavailable",
    "[2026-11-29 13:41:03] '--disable-cuda-graph' is deprecated and will be removed in a future release.",
    "[2026-11-29 12:45:30 TP0] multimem all-gather disabled (no multicast for world_size=2)",
    "[rank0]:[W1129 12:58:15.003 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit",
    "[2026-11-29 12:44:00 TP0] Decode batch, #running-req: 1, accept len: 5.40, accept rate: 0.62, cuda graph: True",
    "Loading safetensors checkpoint shards: 100% Completed | 64/64 [02:12<00:00,  2.07s/it]",
    "OpenAI Responses API (/v1/responses) disabled: OpenAIServingResponses init failed (ModuleNotFoundError: No module named 'openai_harmony')",
    "[2026-11-29 12:44:58] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), NAMED, ids=[f"{code}-{at}" for at, (code, _) in enumerate(NAMED)])
def test_other_words_name_the_same_failure(code: str, text: str) -> None:
    assert [found.code for found in diagnose(text, BOOK)] == [code]


@pytest.mark.parametrize("line", NOT_BLAMED)
def test_a_line_that_only_looks_bad_is_not_blamed(line: str) -> None:
    assert diagnose(line, BOOK) == ()


@pytest.mark.parametrize(("code", "text"), NAMED, ids=[f"{code}-{at}" for at, (code, _) in enumerate(NAMED)])
def test_benign_lines_around_it_change_nothing(code: str, text: str) -> None:
    around = "\n".join(NOT_BLAMED[:-3])
    assert [found.code for found in diagnose(f"{around}\n{text}\n{around}", BOOK)] == [code]

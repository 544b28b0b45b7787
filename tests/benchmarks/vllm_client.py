"""A closed loop around vLLM's own request function, as its ``bench serve`` runs it. Started by ``bench_client.py``.

    python vllm_client.py endpoint_request_func.py URL STREAMS REQUESTS TOKENS

``endpoint_request_func.py`` is the file of that name from vLLM's source (``vllm/benchmarks/lib``); it needs aiohttp,
regex and tqdm, and nothing else of vLLM. Prints JSON: output tokens/s over the whole run, mean time to first token in
ms, CPU seconds of this process since the first request.
"""

import asyncio
import importlib.util
import json
import statistics
import sys
import time
from types import ModuleType

import aiohttp


def load(path: str) -> ModuleType:
    """The module in that file."""
    spec = importlib.util.spec_from_file_location("endpoint_request_func", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def drive(vllm: ModuleType, url: str, streams: int, requests: int, tokens: int) -> dict[str, float]:
    """All requests are tasks at once and wait for a place, as in vLLM's own loop."""
    places = asyncio.Semaphore(streams)
    asked = vllm.RequestFuncInput(
        prompt=list(range(1000, 1128)), api_url=f"{url}/v1/completions", prompt_len=128, output_len=tokens,
        model="demo", ignore_eos=True,
    )  # fmt: skip

    async def one() -> object:
        async with places:
            return await vllm.async_request_openai_completions(asked, session)

    connector = aiohttp.TCPConnector(limit=streams, limit_per_host=streams)
    timeout = aiohttp.ClientTimeout(total=6 * 3600)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        begun_s, cpu_s = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(one() for _ in range(requests)))
        span_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    assert all(answer.success for answer in answers), [answer.error for answer in answers][:1]
    return {
        "output_tokens_per_s": sum(answer.output_tokens for answer in answers) / span_s,
        "ttft_ms": statistics.mean(answer.ttft for answer in answers) * 1e3,
        "cpu_s": cpu_s,
    }


if __name__ == "__main__":
    file, base_url, *counts = sys.argv[1:]
    print(json.dumps(asyncio.run(drive(load(file), base_url, *map(int, counts)))))

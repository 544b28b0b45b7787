"""Power of all GPUs together, the hottest, the slowest, and what held them back."""

from kitctl.bench.gpu_watch import gpu_of
from kitctl.bench.measure import Gpu

CALM = "412.50, 61, 1980, 0x0000000000000000\n405.10, 64, 1965, 0x0000000000000001\n"
CAPPED = "598.00, 84, 1410, 0x0000000000000004\n600.20, 88, 1395, 0x0000000000000024\n"


def test_calm_gpus() -> None:
    assert gpu_of([CALM]) == Gpu(power_w=817.6, temperature_c=64, clock_min_mhz=1965)


def test_power_cap_and_heat_are_named() -> None:
    found = gpu_of([CALM, CAPPED])
    assert found is not None
    assert found.throttled == ("power cap", "thermal (software)")
    assert (found.temperature_c, found.clock_min_mhz) == (88, 1395)
    assert found.power_w is not None
    assert round(found.power_w, 1) == round((817.6 + 1198.2) / 2, 1)


def test_fields_that_a_gpu_does_not_have() -> None:
    assert gpu_of(["[N/A], 40, [Not Supported], [N/A]\n"]) == Gpu(
        power_w=None, temperature_c=40, clock_min_mhz=None
    )


def test_no_gpu() -> None:
    assert gpu_of([]) is None
    assert gpu_of(["No devices were found\n"]) is None

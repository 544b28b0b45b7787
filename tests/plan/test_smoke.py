"""What the smoke test printed becomes checks; run-time kernels that a start would compile fail it."""

import pytest

from kitctl.kit.image_record import SmokeCheck
from kitctl.plan.smoke import kernel_checks

FOUND = "found 12.0 norm._jit_rmsnorm_module(512, 'bfloat16') in 0.5 s\n"
LOST = "FAILED 12.0 sampling.gen_sampling_module(): WouldCompileError: [4/4] c++ sampling.o\n"


def test_kernels_found_are_counted_for_each_arch() -> None:
    output = FOUND + FOUND + FOUND.replace("12.0", "9.0") + "chatter\n"
    assert kernel_checks(output, archs=("12.0", "9.0"), ended=None) == (
        SmokeCheck(
            name="kernels 12.0",
            ok=True,
            detail="2 found in the caches, none is compiled at a start",
            seconds=1.0,
        ),
        SmokeCheck(
            name="kernels 9.0",
            ok=True,
            detail="1 found in the caches, none is compiled at a start",
            seconds=0.5,
        ),
    )


@pytest.mark.parametrize(
    ("output", "ended", "detail"),
    [
        (FOUND + LOST, "exit code 1: x", LOST.strip()),
        (FOUND, "no answer within 1800 s", "no answer within 1800 s"),
        ("", None, "0 found in the caches, none is compiled at a start"),
    ],
)
def test_a_kernel_that_would_be_compiled_or_no_answer_fails(
    output: str, ended: str | None, detail: str
) -> None:
    (check,) = kernel_checks(output, archs=("12.0",), ended=ended)
    assert (check.ok, check.detail) == (False, detail)

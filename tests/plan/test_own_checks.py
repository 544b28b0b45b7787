"""Exposure without a key blocks; code that a model brings is told, louder while no commit is pinned."""

from dataclasses import replace

import pytest
from planned import PCIE, host, planned

from kitctl.finding import Finding, Severity
from kitctl.plan.own_checks import check_plan


@pytest.mark.parametrize("bind", ["127.0.0.1", "::1", "127.8.9.1"])
def test_loopback_needs_no_key(bind: str) -> None:
    assert check_plan(planned("cpu-demo", bind=bind)) == ()


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.7", "1270.0.1"])
def test_any_other_address_needs_one(bind: str) -> None:
    assert check_plan(planned("cpu-demo", bind=bind)) == (
        Finding(
            code="exposed-without-key",
            severity=Severity.BLOCK,
            cause=f"the stack would answer anyone who reaches {bind}:30001",
            evidence=("no API key is set",),
            remedy="give --api-key-file FILE, or bind to 127.0.0.1",
            where="serve.bind",
        ),
    )
    assert check_plan(planned("cpu-demo", bind=bind, api_key_file="/key")) == ()


def test_code_of_a_pinned_model_is_a_note() -> None:
    (finding,) = check_plan(planned("ep4", host(PCIE)))
    assert (finding.code, finding.severity.value) == ("remote-code", "note")
    assert (
        finding.cause
        == "Python code of moonshotai/Kimi-K2.6 runs in the container, pinned to commit 0123456789ab"
    )


def test_code_of_an_unpinned_model_is_a_warning() -> None:
    plan = planned("ep4", host(PCIE))
    loose = replace(plan, models=tuple(replace(model, commit=None) for model in plan.models))
    (finding,) = check_plan(loose)
    assert (finding.code, finding.severity.value) == ("remote-code-unpinned", "warn")
    assert finding.remedy == "kitctl models lock moonshotai/Kimi-K2.6"

"""``--set PATH=VALUE`` gives a dotted path and a value typed as in the stack file."""

from typing import Any

import pytest

from kitctl.errors import Exit, KitError
from kitctl.kit.settings import read_setting


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("parallel.tp=4", "parallel.tp", 4),
        ("engine.mem_fraction_static=0.8", "engine.mem_fraction_static", 0.8),
        ("engine.graphs=off", "engine.graphs", "off"),
        ("engine.trust_remote_code=false", "engine.trust_remote_code", False),
        ("model=a/b=c", "model", "a/b=c"),
        ("archs=[12.0, '9.0']", "archs", [12.0, "9.0"]),
        ("environment.A='4'", "environment.A", "4"),
        ("environment.A=ünïcode", "environment.A", "ünïcode"),
        ("drafter=null", "drafter", None),
        ("drafter=", "drafter", None),
    ],
)
def test_path_and_typed_value(text: str, path: str, value: Any) -> None:
    assert read_setting(text) == (path, value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it must read PATH=VALUE, with a dotted path of the stack file"),
        ("parallel.tp", "it must read PATH=VALUE, with a dotted path of the stack file"),
        ("=4", "it must read PATH=VALUE, with a dotted path of the stack file"),
        ("a..b=4", "it must read PATH=VALUE, with a dotted path of the stack file"),
        (".a=4", "it must read PATH=VALUE, with a dotted path of the stack file"),
        ("a=b: c", "the value is no YAML"),
        ("a=[1", "the value is no YAML"),
        ("a=1\nb: 2", "it must hold one value"),
    ],
)
def test_what_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(KitError) as refused:
        read_setting(text)
    assert refused.value.cause == f"--set {text}: {why}"
    assert (refused.value.code, refused.value.exit_code) == ("bad-setting", Exit.USAGE)
    assert refused.value.remedy == "write for example --set parallel.tp=4"

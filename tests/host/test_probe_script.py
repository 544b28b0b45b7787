"""One script asks many probes and its answers are told apart, late and missing ones included."""

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from kitctl.host.probe_script import probe_script, read_probe_script
from kitctl.host.probes import Answer, Probe

PROBES = (
    Probe(name="says", argv=("printf", "%s", "a 'quoted' line\nand a second")),
    Probe(name="fails", argv=("sh", "-c", "echo why >&2; exit 3")),
    Probe(name="late", argv=("sleep", "5"), timeout_s=0.3),
    Probe(name="missing", argv=("no-such-tool", "--version")),
    Probe(name="empty", argv=("true",)),
)


def test_the_script_under_a_shell() -> None:
    done = subprocess.run(
        ["sh", "-s"], input=probe_script(PROBES, mark="MARK1"), capture_output=True, text=True, check=True
    )
    found = read_probe_script(done.stdout, PROBES, mark="MARK1", failure="gone")
    assert (found["says"].exit_code, found["says"].stdout) == (0, "a 'quoted' line\nand a second")
    assert (found["fails"].exit_code, found["fails"].stderr.strip()) == (3, "why")
    assert (found["late"].exit_code, found["late"].failure) == (None, "no answer within 0.3 s")
    assert (found["missing"].exit_code, found["missing"].failure) == (None, "no-such-tool is not there")
    assert (found["empty"].ok, found["empty"].stdout) == (True, "")


def test_what_a_broken_connection_leaves_out_is_told() -> None:
    found = read_probe_script("", PROBES, mark="M", failure="docker: no such image")
    assert found["says"] == Answer(argv=PROBES[0].argv, exit_code=None, failure="docker: no such image")


@given(st.text(alphabet="ab \n\tMARK01", max_size=60), st.text(alphabet="xy\n M", max_size=30))
def test_any_text_comes_back_as_it_was(out: str, err: str) -> None:
    text = f"\nM-1 0 0\n{out}\nM-1 err\n{err}\nM-1 end\n"
    found = read_probe_script(text, PROBES[:1], mark="M-1", failure="gone")
    assert (found["says"].stdout, found["says"].stderr) == (out, err)

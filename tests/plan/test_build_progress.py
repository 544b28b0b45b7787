"""Of the builder's lines a person sees one an event: which step ended, and after how long."""

from kitctl.plan.build_progress import BuildEvents, failure_lines

LINES = """#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s
#9 [os 3/3] RUN --mount=type=tmpfs,target=/var/log     --mount=type=secret,id=ca     /opt/kit/apt-install python3
#9 0.512 Get:1 packages
#9 DONE 64.9s
#12 [common 1/3] RUN sh /opt/install-packages.sh compile
#12 CACHED
#15 206.4 compiled 12.0 norm._jit_rmsnorm_module(512, 'bfloat16') in 5.5 s
#20 exporting layers 95.3s done
#20 DONE 131.0s
#14 [gpu 1/4] RUN false
#14 ERROR: process "/bin/sh -euc false" did not complete successfully: exit code: 1
"""


def test_steps_are_named_when_they_end() -> None:
    events = BuildEvents()
    assert [event for line in LINES.splitlines() if (event := events.event_of(line))] == [
        "  done     64.9s  os 3/3 RUN /opt/kit/apt-install python3",
        "  cached          common 1/3 RUN sh /opt/install-packages.sh compile",
        "  compiled 12.0 norm._jit_rmsnorm_module(512, 'bfloat16') in 5.5 s",
        "  exporting layers 95.3s done",
        "  error           gpu 1/4 RUN false",
    ]


FAILED = """#9 [gpu 1/1] RUN python x.py
#9 0.5 compiled a
#9 ERROR: process "/bin/sh -euc python x.py" did not complete successfully: exit code: 1
------
 > [gpu 1/1] RUN python x.py:
0.5 compiled a
0.9 FAILED b: why
------
Dockerfile:3
--------------------
   3 | >>> RUN python x.py
--------------------
ERROR: failed to build: failed to solve: process "/bin/sh -euc python x.py" did not complete successfully: exit code: 1
"""


def test_of_a_failed_step_its_own_last_words_are_shown() -> None:
    assert failure_lines(FAILED.splitlines()) == (
        " > [gpu 1/1] RUN python x.py:",
        "0.5 compiled a",
        "0.9 FAILED b: why",
        'ERROR: failed to build: failed to solve: process "/bin/sh -euc python x.py" did not complete successfully: '
        "exit code: 1",
    )


def test_without_a_step_the_last_lines_are_shown() -> None:
    assert failure_lines(["", "ERROR: no such builder"]) == ("ERROR: no such builder",)
    assert failure_lines(["a", "", "b"]) == ("a", "b")

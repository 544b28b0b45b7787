"""A kitctl whose system clock can be set while it runs; its monotonic clock, and everybody else's, go on."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kitctl_process import KitUser, new_user

SOURCE = Path(__file__).parent / "set_clock.c"
DAY_S = 86400


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The system clock as the user's processes see it."""

    place: Path

    def step(self, offset_s: int) -> None:
        """Set it so many seconds off the true time."""
        beside = self.place.with_suffix(".new")
        beside.write_text(f"{offset_s}\n")
        beside.replace(self.place)


@contextmanager
def user_with_clock(home: Path) -> Iterator[tuple[KitUser, Clock]]:
    """A user of kitctl and its clock, which shows the true time."""
    library = home / "set_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", library, SOURCE, "-ldl"], check=True)
    clock = Clock(place=home / "clock")
    clock.step(0)
    with new_user(home, LD_PRELOAD=str(library), SET_CLOCK=str(clock.place)) as user:
        yield user, clock

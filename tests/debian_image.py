"""Container images of programs that Debian packages: the program, the libraries that it loads, nothing else."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

PASSWD = "root:x:0:0::/:/\nnobody:x:65534:65534::/:/\n"


def import_program(tag: str, *, package: str, program: str, work: Path, name: str, owns: str = "") -> None:
    """An image ``tag`` with ``program``, a path inside ``package``, as ``/usr/bin/NAME``, and its libraries.

    Packages that this machine lacks are fetched and unpacked below ``work``; nothing is installed. ``owns`` is a folder
    of nobody's.
    """
    root = unpack(package, work)
    libraries = _libraries(root / program, root)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add((root / program).resolve(), f"usr/bin/{name}")
        for place, path in libraries.items():
            tar.add(path.resolve(), place.lstrip("/"))
        for folder in ("tmp", "etc", "run"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made)
        if owns:
            made = tarfile.TarInfo(owns)
            made.type, made.mode, made.uid, made.gid = tarfile.DIRTYPE, 0o755, 65534, 65534
            tar.addfile(made)
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(PASSWD)
        tar.addfile(entry, io.BytesIO(PASSWD.encode()))
    argv = ["docker", "import", "--change", "ENV PATH=/usr/bin", "-", tag]
    subprocess.run(argv, input=packed.getvalue(), check=True, capture_output=True)


def import_busybox(tag: str) -> None:
    """An image ``tag`` of Debian's busybox-static alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
    argv = ["docker", "import", "--change", "ENV PATH=/bin", "-", tag]
    subprocess.run(argv, input=packed.getvalue(), check=True, capture_output=True)


def unpack(package: str, work: Path) -> Path:
    """The files of ``package`` and of what it needs and this machine lacks, below one folder."""
    archives, root = work / "archives", work / "root"
    (archives / "partial").mkdir(parents=True)
    options = ["-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root", "-qq", "-y"]
    argv = ["apt-get", *options, "--no-install-recommends", "--download-only", "install", package]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"apt-get update first: {done.stderr}"
    found = sorted(archives.glob("*.deb"))
    assert found, f"{package} is installed already: its files are taken from this machine"
    for archive in found:
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    return root


def _libraries(program: Path, root: Path) -> dict[str, Path]:
    """Where the program looks for each library, and the file that it is."""
    folder = f"{root}/usr/lib/x86_64-linux-gnu"
    argv = ["env", f"LD_LIBRARY_PATH={folder}", "ldd", str(program)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found: dict[str, Path] = {}
    for line in said.splitlines():
        words = line.split()
        path = next((word for word in words if word.startswith("/")), None)
        if path is not None:
            place = path.removeprefix(str(root))
            found[f"/usr{place}" if place.startswith("/lib/") else place] = Path(path)
            if "ld-linux" in place:
                found[place] = Path(path)
    return found

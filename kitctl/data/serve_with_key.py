"""Launch SGLang with the API key of a file; neither argv nor the engine's log of its arguments shows the key."""

import os
import sys
from pathlib import Path


class HiddenKey(str):
    """A key that compares and prints into headers as itself, but whose repr hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def main() -> None:
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    server_args = prepare_server_args(sys.argv[1:])
    server_args.api_key = HiddenKey(
        Path(os.environ["KITCTL_API_KEY_FILE"]).read_text(encoding="utf-8").strip()
    )
    try:
        run_server(server_args)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main()

"""``python -m kitctl`` is ``kitctl``."""

import sys

from kitctl.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m anybound`: the command line."""

import sys

from anybound.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

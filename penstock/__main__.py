"""`python -m penstock`."""

import sys

try:
    from penstock.cli import main
except KeyboardInterrupt:  # nothing was begun: no word is needed
    sys.exit(130)

main()

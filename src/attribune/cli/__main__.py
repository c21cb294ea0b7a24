"""``python -m attribune.cli``, the same as the command ``attribune``."""

import sys

from attribune.cli import main

sys.exit(main())

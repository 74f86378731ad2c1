"""`python -m keras_permix.cli`, the same as `permix`."""

import sys

from keras_permix.cli import main

sys.exit(main())

"""The module `albert.modeling` under its name in the reference."""

import sys

from albert import modeling

sys.modules[__name__] = modeling

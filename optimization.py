"""The module `albert.optimization` under its name in the reference."""

import sys

from albert import optimization

sys.modules[__name__] = optimization

"""The module `albert.lamb_optimizer`, by its name in the reference."""

import sys

from albert import lamb_optimizer

sys.modules[__name__] = lamb_optimizer

"""The module `albert.tokenization` under its name in the reference."""

import sys

from albert import tokenization

sys.modules[__name__] = tokenization

"""The reference's module of LAMB: a name only, the code lives in `optimization`."""

from albert.optimization import LAMBOptimizer  # noqa: F401

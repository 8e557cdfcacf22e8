"""The reference's module of functions for fine-tuning; its names are from `reference_api`."""

from albert.reference_api.common import create_albert, create_vocab  # noqa: F401

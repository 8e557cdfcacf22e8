"""The reference's module of what fine-tuning builds on: names only, of `albert.reference_api`."""

from albert.reference_api.encoders import create_albert, create_vocab

__all__ = ["create_albert", "create_vocab"]

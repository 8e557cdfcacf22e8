"""A tiny encoder without dropout, for tests of classification."""

from albert.modeling import AlbertConfig

SIZES = {"vocab_size": 60, "embedding_size": 8, "hidden_size": 16, "intermediate_size": 32}
SIZES |= {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIG = AlbertConfig(**SIZES, **NO_DROPOUT, initializer_range=0.3)

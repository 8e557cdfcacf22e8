"""What tests of classification share: a tiny encoder without dropout."""

from modeling import AlbertConfig

CONFIG = AlbertConfig(
    **{"vocab_size": 60, "embedding_size": 8, "hidden_size": 16, "intermediate_size": 32},
    **{"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.3},
)

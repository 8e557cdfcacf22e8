"""Collections in which a model leaves the tensors that hooks report."""

LOSS = "training_loss"
LEARNING_RATE = "learning_rate"
# Tokens of the batch that are not padding.
TOKENS = "tokens_in_batch"

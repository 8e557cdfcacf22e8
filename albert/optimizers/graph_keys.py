"""Collections in which a model and its input leave the tensors that hooks report."""

LOSS = "training_loss"
LEARNING_RATE = "learning_rate"
# Tokens of the batch that are not padding.
TOKENS = "tokens_in_batch"
# Seconds from when a batch was asked for until it came.
WAITED = "seconds_waited_for_input"

"""Which operations compute in bfloat16, and graphs converted to that."""

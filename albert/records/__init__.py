"""Data of tasks: files, features, records and batches."""

# The splits: for training, for choosing the best checkpoint, and to be labeled with it.
TRAIN, DEV, TEST = "train", "dev", "test"

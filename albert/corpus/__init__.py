"""Text for pretraining from folders of texts, JSON Lines and Parquet."""

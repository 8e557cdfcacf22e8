"""A model's weights from and to the folders of `transformers`."""

"""Commands that fetch pretrained models and datasets; they need no TensorFlow."""

"""ALBERT and BERT for TensorFlow: fine-tuning, pretraining, answering and serving."""

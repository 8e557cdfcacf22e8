"""The reference's signatures, unused arguments and lists, which call the tasks and the model."""

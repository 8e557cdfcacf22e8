"""SQuAD: question answering by a span of the paragraph."""

"""What tasks have in common that choose one of several labels, or give a number."""

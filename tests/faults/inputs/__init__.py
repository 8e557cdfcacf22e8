"""Bad inputs by the hundred, and what each program must say of them."""

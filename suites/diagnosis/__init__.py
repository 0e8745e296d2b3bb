"""What torch's own tools say, said unasked."""

"""Plans: the code that Inductor generates for a GPU, determined on a machine without a GPU."""

"""Plan the code that Inductor generates for a GPU, on a machine without this GPU."""

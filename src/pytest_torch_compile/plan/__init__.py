"""Generate Inductor's code for a GPU on a machine without this GPU, and predict its kernels and peak memory."""

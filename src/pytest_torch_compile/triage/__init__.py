"""One commit under two releases of torch: what fails since, grouped by cause."""

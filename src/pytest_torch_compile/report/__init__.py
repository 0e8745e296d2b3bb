"""From a report to what people read: one file for each form."""

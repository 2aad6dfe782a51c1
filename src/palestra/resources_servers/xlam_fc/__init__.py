"""Function calling: which calls did the model make, with which arguments."""

"""What the viewer's index costs to build and to ask, against reading the rows alone."""

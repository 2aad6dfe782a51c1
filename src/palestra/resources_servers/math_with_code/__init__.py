"""Mathematics with a Python interpreter as a tool, graded like `math_with_judge`."""

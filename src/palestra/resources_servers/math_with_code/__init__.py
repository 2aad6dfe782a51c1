r"""Mathematics with a Python interpreter as a tool, graded as `math_with_judge`."""

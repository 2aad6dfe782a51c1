"""Short answers: is what a model gives as its answer the expected text?"""

"""Short answers: does the model's answer equal the expected text?"""

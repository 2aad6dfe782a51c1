"""One step of a conversation with tools: is the model's call or message the right next step?"""

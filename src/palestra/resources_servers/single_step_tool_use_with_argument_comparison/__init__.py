"""One step of a conversation with tools: did the model do what belongs there, call or message."""

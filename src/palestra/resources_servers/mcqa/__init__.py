"""Multiple choice questions: several answer grammars find the letter that the model chose."""

"""Multiple choice questions: which letter did the model choose, by several answer grammars."""

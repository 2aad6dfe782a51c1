"""The page for users of NeMo Gym: what they type, by topic, and who types it."""

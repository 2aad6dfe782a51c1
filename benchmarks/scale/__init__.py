"""How a collection carries load: many rollouts in flight, and many rollouts one after another."""

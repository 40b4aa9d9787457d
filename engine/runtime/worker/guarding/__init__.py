"""What touches anything outside the namespace: how it is noticed, whose work it is, and what stops it in a replay."""

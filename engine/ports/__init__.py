"""What the engine needs from outside, as Protocols, with the plain values that cross them.

Nothing here performs anything. Import a name from the module that owns it; each says who implements it.
"""

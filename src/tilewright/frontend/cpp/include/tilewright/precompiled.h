// Nothing: what is precompiled is included before it.

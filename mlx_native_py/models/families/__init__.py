"""Families of models: one module per architecture; its `Model` is the class that `load` takes."""

"""Model families: one module per architecture, whose `Model` is the class that `load` uses."""

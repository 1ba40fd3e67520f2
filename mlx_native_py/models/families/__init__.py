"""The families of models: a module for each, named as its architecture, whose `Model` is the class that `load` takes."""

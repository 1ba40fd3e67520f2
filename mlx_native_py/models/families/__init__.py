"""The families of models: a module for each, named as its architecture, with a class `Model`."""

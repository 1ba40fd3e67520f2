// Empty: the library of MSL is part of every compilation.

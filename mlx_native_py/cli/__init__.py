"""The command line, `mlx-native`."""

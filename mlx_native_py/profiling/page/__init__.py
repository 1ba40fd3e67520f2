"""The report's page: one file of HTML with its style, its script and its data inside."""

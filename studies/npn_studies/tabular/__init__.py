"""Real tables, methods that predict a distribution for each row of them, and how well they do."""

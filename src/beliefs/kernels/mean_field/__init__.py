"""Mean field over variables and over trees."""

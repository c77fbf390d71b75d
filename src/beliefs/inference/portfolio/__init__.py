"""What ``auto`` means."""

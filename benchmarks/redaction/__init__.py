"""What the detectors of personal data find and miss, on texts whose answers are known."""

"""Files: models for prediction."""

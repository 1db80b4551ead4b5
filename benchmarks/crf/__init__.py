"""Log loss: conditional random fields and logistic regression beside their peers."""

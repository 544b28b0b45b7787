"""What should a model store hold, what does it hold, and what is to be done about the difference?"""

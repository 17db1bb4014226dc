"""What an operator does and sees in the admin: operations through the verbs, what is told of a row, and the live page."""

"""Tables of counts from elsewhere: their form, and verdicts on them."""

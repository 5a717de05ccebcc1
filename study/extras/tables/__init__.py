"""Tables of results from elsewhere: analyze and import."""

"""Feed damaged files, texts and settings to the package: each is read or refused in one line."""

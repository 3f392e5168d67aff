"""Our games in the interfaces of other libraries, which the extra `doors` installs."""

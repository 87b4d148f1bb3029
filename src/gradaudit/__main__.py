"""``python -m gradaudit``: the same as the command ``gradaudit``."""

from gradaudit.cli import main

if __name__ == "__main__":
    main()

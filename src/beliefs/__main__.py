"""``python -m beliefs`` is the command ``beliefs``."""

from beliefs.cli import main

if __name__ == "__main__":
    main()

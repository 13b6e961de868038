"""``python -m weftos`` is ``weftos``."""

from weftos.cli import main

if __name__ == "__main__":
    main()

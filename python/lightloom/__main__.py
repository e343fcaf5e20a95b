"""The command ``lightloom``, and ``python -m lightloom``."""


def main() -> None:
    """Run the command line; Ctrl-C while it is imported is an interrupt like any other."""
    try:
        from lightloom.cli import main as run

        run()
    except KeyboardInterrupt:
        import os

        os.write(2, b"lightloom: interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()

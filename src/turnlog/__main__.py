"""python -m turnlog"""

from turnlog.cli.main import main

main()

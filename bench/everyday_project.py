"""The project that everyday commands run in: a Python package, a script of Node, a crate, make."""

import os
import subprocess
from pathlib import Path

FILES = {
    "README.md": "# shop\n\nPrices and carts.\n\nTODO: describe discounts\n",
    "CHANGELOG.md": "## 0.2.0\n\n- carts\n\n## 0.1.0\n\n- prices\n",
    ".gitignore": ".env\n__pycache__/\n.pytest_cache/\ndist/\ntarget/\nnode_modules/\n*.log\n",
    "pyproject.toml": '[project]\nname = "shop"\nversion = "0.2.0"\n\n[tool.pytest.ini_options]\n'
    'pythonpath = ["src"]\ntestpaths = ["tests"]\n',
    "src/shop/__init__.py": '"""A shop."""\n\nfrom shop.cart import Cart\n\n__all__ = ["Cart"]\n',
    "src/shop/cart.py": "from shop.prices import price\n\n\nclass Cart:\n"
    "    def __init__(self):\n        self.items = []\n\n    def add(self, name, count=1):\n"
    "        self.items.append((name, count))\n\n    def total(self):\n"
    "        # TODO: discounts\n        return sum(price(n) * c for n, c in self.items)\n",
    "src/shop/prices.py": 'PRICES = {"tea": 4, "cup": 9}\n\n\ndef price(name):\n'
    "    return PRICES[name]\n",
    "src/shop/__main__.py": 'import sys\n\nfrom shop import Cart\n\nif "--help" in sys.argv:\n'
    '    print("usage: shop [NAME ...]")\n    raise SystemExit\ncart = Cart()\n'
    "for name in sys.argv[1:]:\n    cart.add(name)\nprint(cart.total())\n",
    "tests/test_cart.py": "import pytest\n\nfrom shop import Cart\n\n\ndef test_total():\n"
    '    cart = Cart()\n    cart.add("tea", 2)\n    assert cart.total() == 8\n\n\n'
    "def test_empty():\n    assert Cart().total() == 0\n\n\ndef test_unknown():\n"
    '    cart = Cart()\n    cart.add("pot")\n    with pytest.raises(KeyError):\n'
    "        cart.total()\n",
    "tests/test_files.py": "from shop.prices import PRICES\n\n\ndef test_saved(tmp_path):\n"
    '    (tmp_path / "a.txt").write_text(str(PRICES))\n    assert list(tmp_path.iterdir())\n',
    "package.json": '{\n  "name": "shop-web",\n  "version": "0.2.0",\n  "type": "module",\n'
    '  "scripts": {\n    "test": "node --test web/",\n    "lint": "node --check web/total.js",\n'
    '    "build": "node web/build.js"\n  }\n}\n',
    "web/total.js": "export const total = (items) => items.reduce((a, b) => a + b, 0);\n",
    "web/total.test.js": 'import test from "node:test";\nimport assert from "node:assert";\n'
    'import { total } from "./total.js";\n\ntest("adds", () => assert.equal(total([1, 2]), 3));\n',
    "web/build.js": 'import { mkdirSync, copyFileSync } from "node:fs";\n'
    'mkdirSync("dist", { recursive: true });\ncopyFileSync("web/total.js", "dist/total.js");\n',
    "Makefile": ".PHONY: test lint build check clean\ntest:\n\tpython -m pytest -q\nlint:\n"
    "\tpython -m compileall -q -n src || true\n\tnode --check web/total.js\n"
    "build:\n\tmkdir -p dist\n\tcp src/shop/*.py dist/\ncheck: lint test\nclean:\n\trm -rf dist\n",
    "Cargo.toml": '[package]\nname = "tally"\nversion = "0.1.0"\nedition = "2021"\n',
    "Cargo.lock": 'version = 4\n\n[[package]]\nname = "tally"\nversion = "0.1.0"\n',
    "src/main.rs": 'fn main() {\n    println!("{}", 2 + 2);\n}\n\n#[test]\nfn adds() {\n'
    "    assert_eq!(2 + 2, 4);\n}\n",
    "Dockerfile": "FROM scratch\nCOPY src /src\n",
    "scripts/report.sh": '#!/bin/bash\nset -eu\nfor f in src/shop/*.py; do wc -l "$f"; done\n',
    "data/orders.json": '[{"id": 1, "name": "tea", "count": 2},\n'
    '{"id": 2, "name": "cup", "count": 5}]\n',
    "data/orders.csv": "id,name,count\n1,tea,2\n2,cup,1\n3,tea,5\n",
    "docs/guide.md": "# Guide\n\nAdd items to a cart.\n",
    "app.log": "INFO start\nERROR no price for pot\nINFO stop\n",
}
COMMITS = (
    ("add prices", ("README.md", ".gitignore", "pyproject.toml", "src/shop/prices.py")),
    ("add carts", ("src", "tests")),
    ("add the web page", ("package.json", "web", "Makefile")),
    ("add everything else", ("-A",)),
)


def write_project(folder: Path) -> None:
    """Write the project: four commits, a branch, a change that is not committed, and `.env`."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "scripts/report.sh").chmod(0o755)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.com")
    for title, paths in COMMITS:
        git(folder, "add", *paths)
        git(folder, "commit", "-q", "-m", title)
    git(folder, "tag", "v0.2.0")
    git(folder, "branch", "feature", "HEAD~1")
    git(folder, "remote", "add", "origin", "https://git.example.invalid/shop.git")
    (folder / ".env").write_text("API_KEY=1234\n")
    (folder / "src/shop/prices.py").write_text(FILES["src/shop/prices.py"].replace("9", "8"))
    (folder / "notes.txt").write_text("a note\n")


def git(folder: Path, *arguments: str) -> None:
    """Run git in a project."""
    dates = {f"GIT_{who}_DATE": "2026-11-18T11:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    subprocess.run(["git", *arguments], cwd=folder, check=True, env=dict(os.environ) | dates)

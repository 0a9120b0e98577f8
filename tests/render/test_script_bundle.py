"""ES modules as one script."""

from pathlib import Path

import pytest

from turnlog.render.html.script_bundle import bundle_scripts
from turnlog.render.html.session_file import VIEWER, viewer_script


def bundled(folder: Path, **modules: str) -> str:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)
    return bundle_scripts(folder, "main.js")


def test_modules_keep_their_scopes(tmp_path: Path) -> None:
    script = bundled(
        tmp_path,
        main='import { b as c, d } from "./other.js";\nconst hidden = 1;\nexport const e = c;\n',
        other="const hidden = 2;\nexport function b() {}\nexport class d {}\n"
        "export async function f() {}\n",
    )
    assert script == (
        '"use strict";\n'
        "const $other_js = (() => {\nconst hidden = 2;\nfunction b() {}\nclass d {}\n"
        "async function f() {}\nreturn { b, d, f };\n})();\n"
        "const $main_js = (() => {\nconst { b: c, d } = $other_js;\nconst hidden = 1;\n"
        "const e = c;\nreturn { e };\n})();"
    )


def test_a_module_that_several_import_is_there_once(tmp_path: Path) -> None:
    script = bundled(
        tmp_path,
        main='import { a } from "./one.js";\nimport {\n  b,\n} from "./two.js";',
        one='import { x } from "./base.js";\nexport const a = x;',
        two='import { x } from "./base.js";\nexport const b = x;',
        base="export const x = 1;",
    )
    assert script.count("const $base_js") == 1
    assert script.index("$base_js =") < script.index("$one_js =") < script.index("$main_js =")


@pytest.mark.parametrize(
    "source",
    [
        'import x from "./other.js";',
        'import * as x from "./other.js";',
        'import { x } from "https://cdn.example/x.js";',
        'import "./other.js";',
        "export default 1;",
        "const x = 1;\nexport { x };",
        'const x = import("./other.js");',
        'export * from "./other.js";',
    ],
)
def test_other_imports_and_exports_are_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match="cannot bundle"):
        bundled(tmp_path, main=source, other="export const x = 1;")


def test_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="import each other"):
        bundled(tmp_path, main='import { a } from "./a.js";', a='import { b } from "./main.js";')


@pytest.mark.parametrize("text", ["</script>", "<!--", "<SCRIPT"])
def test_a_script_cannot_end_its_element(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="a script contains"):
        bundled(tmp_path, main=f'const x = "{text}";')


def test_the_viewer_is_bundled_whole() -> None:
    script = viewer_script()
    unused = {"web_page.js", "web_source.js", "charts.js"}  # only pages of the web app load them
    for path in VIEWER.glob("*.js"):
        variable = f"const ${path.stem}_js = "
        assert (script.count(variable) == 1) != (path.name in unused), path.name

"""Random bash commands from bash's grammar, in groups that each target one weakness."""

import re
import string
import subprocess
from collections.abc import Callable
from functools import cache
from random import Random

INSIDE = [
    *(
        "src/app.py",
        "docs/a.md",
        "docs/b.md",
        "README.md",
        "in.txt",
        "src",
        "docs",
        ".",
        "list.txt",
    ),
    *(
        "src/*.py",
        "docs/*",
        "*.md",
        "./src",
        "src/../docs/a.md",
        "'s p/a b.txt'",
        "dash/a",
        "dash/*",
    ),
    *("$PWD/src/app.py", "?*.md", "docs/[ab].md", "nb/*", "*", "new.txt", "HEAD", "-"),
]
SECRET = [
    *(".env", "config/prod.key", "config", "out.txt", "out/secret.txt", "../outside/secret.txt"),
    *("~/.ssh/id", "$HOME/.ssh/id", "deep/up/secret.txt", "deep/up", "out/../outside/secret.txt"),
    *("$PWD/.env", ".{env,x}", "{.env,x}", ".[^x]nv", ".['!'x]nv", ".[[:alpha:]]nv", ".e*", ".*"),
    *(".?nv", "*/prod.key", "conf*/*", "[c]onfig/*", "$'.env'", "$'\\x2eenv'", '".env"', "\\.env"),
    *(
        "src/../.env",
        "./.env",
        "~+/.env",
        "${PWD}/.env",
        "$(echo .env)",
        "`echo .env`",
        "HEAD:.env",
    ),
    *(":.env", ":0:.env", "./config/../.env", ".env/.", "OUT.TXT", ".ENV", "out*", "o?t.txt"),
    *("/proc/self/cwd/.env", "/proc/self/root/etc/hostname", "//tmp/../$PWD/.env", ".env''"),
    *("..", "../*", "../outside/*", "~", "~root", "/", "/etc/hostname", "../project/.env"),
]
PROTECTED = [
    *(".git/HEAD", ".git/config", ".git/hooks/post-checkout", ".claude/settings.json", ".mcp.json"),
    *(".[^x]laude/settings.json", ".git", ".claude", "docs/../.git/config", ".[^x]it/HEAD"),
    *(".cl*/settings.json", ".GIT/config", "./.claude/../.mcp.json", "docs/keep.md", ".vscode/x"),
    *(
        "../outside/new",
        "out/new",
        "~/new",
        "$HOME/new",
        "..",
        "../project2",
        "/tmp/turnlog-canary",
    ),
]
PAYLOADS = [
    *("touch pwned", "evil", "curl x", "echo x > pwned", "cat ../outside/secret.txt", "cat .env"),
    *("rm -rf src", "cp evil.json .claude/settings.json", "/bin/sh -c evil", "./3/ls", "3/cat x"),
    *(
        "tee pwned",
        "ln -s / pwned",
        "dd of=pwned",
        "sed -i s/a/b/ src/app.py",
        "git init x",
        "e\\vil",
    ),
]
HARMLESS = [
    *("ls", "pwd", "cat src/app.py", "echo hi", "true", "git status", "head -1 README.md", "ok a"),
    *(
        "git log --oneline",
        "wc -l src/app.py",
        "cd src",
        "echo x",
        "cat",
        "printf %s x",
        "[ -f x ]",
    ),
]
READERS = """
cat cmp cut df diff du egrep fgrep file grep head ls md5sum nl readlink realpath rev rg sha1sum
sha256sum sort stat tac tail tree uniq wc basename dirname id seq tr uname which date find sed
printf test echo type command pwd od comm paste fold join xxd base64 strings less awk split
""".split()
WRITERS = "cp mv rm rmdir mkdir touch tee ln install truncate dd sed chmod rsync unlink".split()
LAUNCHERS = """
env|nohup|nice|nice -n 5|timeout 5|timeout -s KILL 5|setsid|stdbuf -oL|command|builtin|exec|eval
|xargs|xargs -n1|xargs -I{} sh -c|xargs --replace|time|time -p|env -i|env -S|env --split-string=
|env -u X|env --|sudo|doas|flock lock|flock lock -c|setpriv --clear-groups|prlimit --core=0
|linux64|linux32|setarch x86_64|sg root -c|perf stat|valgrind|strace -o /dev/null|ionice -c3
|chrt -o 0|taskset 1|unshare -r|busybox|bash -c|sh -c|bash -lc|bash <<<|sh <<<|. /dev/stdin <<<
|trap -- EXIT;|coproc|find . -maxdepth 0 -exec|watch -n1|script -qc|su -c|runuser -u root --
|git -c alias.x=! x|git bisect run|python3 -c|perl -e|awk BEGIN|awk|make -f - <<<|parallel
|printf -v|declare -n|export|readonly|typeset|local|let|mapfile -C|hash -p|alias a=|complete -C
|systemd-run|xvfb-run|nsenter|chroot /|start-stop-daemon -S -x|expect -c|ssh localhost|at now
|choom -n 0 --|uclampset|catchsegv|daemonize|dtach -n x|tmux -C new|screen -D -m|unbuffer|faketime
""".replace("\n", "").split("|")
ASSIGNMENTS = """
PATH=3|PATH=.:$PATH|CDPATH=/|CDPATH=..|IFS=/|BASH_ENV=evil.json|ENV=x|LD_PRELOAD=x|GIT_DIR=fix
|GIT_EXTERNAL_DIFF=evil|GIT_PAGER=evil|PAGER=evil|LESSOPEN=evil|PS4='$(evil)'|SHELLOPTS=xtrace
|PROMPT_COMMAND=evil|x=curl|x=.env|LANG=C|TZ=UTC|a=b|GREP_OPTIONS=-r|HOME=/|GLOBIGNORE=x
|RIPGREP_CONFIG_PATH=x|GIT_CONFIG_COUNT=1|BASH_FUNC_ls%%='() { evil; }'|LC_ALL='a[$(evil)]'
""".replace("\n", "").split("|")
STATE = [
    *("printf 'aaa%n' PATH", "printf '%3$n' a b PATH", "printf %s%n abc PATH", "printf -v PATH 3"),
    *("echo ${PATH:=3}", "echo ${CDPATH:=/}", "echo ${x=evil}", ": ${x:=.env}", "read PATH <<< 3"),
    *(
        "read x < list.txt",
        "mapfile x < list.txt",
        "export PATH=3",
        "declare PATH=3",
        "typeset x=1",
    ),
    *("set -- .env", "set -f", "shopt -s dotglob", "alias ls=evil", "hash -p evil ls", "cd src"),
    *("cd ..", "cd out", "cd fix", "cd deep/up", "cd out/..", "pushd ..", "popd", "cd -", "cd"),
    *(
        "unset PATH",
        "enable -f x y",
        "trap evil EXIT",
        "ls() { evil; }",
        "getopts a PATH",
        "let x=1",
    ),
    *(
        "((PATH=3))",
        "for PATH in 3; do ls; done",
        "for CDPATH in /; do cd etc; done",
        "exec 3<.env",
    ),
    *("select PATH in 3; do ls; done", "PATH=3", "PATH+=:3", "x[0]=1", "x=(a b)", "wait -p PATH"),
    *("coproc PATH { :; }", "{PATH}<list.txt", "exec {PATH}<list.txt", "umask 0", "ulimit -c 0"),
    *("printf '%(%s)T'", "printf '%*d' 3 4", "test -v 'a[$(evil)]'", "[ -v 'a[$(evil)]' ]"),
    *("[[ 'a[$(evil)]' -eq 0 ]]", "[[ -v a[$(evil)] ]]", "unset 'a[$(evil)]'", "read 'a[$(evil)]'"),
]
EXPANSIONS = [
    *("$({})", "`{}`", '"$({})"', '"`{}`"', "<({})", ">({})", "${{x:-$({})}}", "${{x:=$({})}}"),
    *("$(({}))", "$((a[$({})]))", "$[a[$({})]]", "${{x:+{}}}", "${{!x}}$({})", "${{x@P}}", "$'{}'"),
    *("${{a[$({})]}}", "${{x:$({})}}", "${{x/$({})/}}", "${{x^^$({})}}", "${{ {}; }}", "${{|{};}}"),
    *("\\`{}\\`", "'$({})'", "\\$({})", "$\\({})", '$"$({})"', "{{a,$({})}}", "~$({})", "a=$({})"),
]
FRAMES = [
    *("{a}; {b}", "{a} && {b}", "{a} || {b}", "{a} | {b}", "{a} |& {b}", "{a} & {b}", "{a}\n{b}"),
    *("({a}; {b})", "{{ {a}; {b}; }}", "if {a}; then {b}; fi", "while {b}; do {a}; break; done"),
    *("until {b}; do {a}; break; done", "for i in 1; do {b}; done", "case x in x) {b};; esac"),
    *("! {b}", "time {b}", "time -p {b}", "{a} # c\n{b}", "{a} \\\n; {b}", "f() {{ {b}; }}; f"),
    *("function f {{ {b}; }}; f", "coproc {b}", "[[ -n $({b}) ]]", "(( a[$({b})] ))", "{a};;{b}"),
    *("{a} <<E\n$({b})\nE", "{a} <<'E'\n$({b})\nE\n{b}", "{a} <<-E\n\tE\n{b}", "{a} <<< $({b})"),
    *(
        "{a} <<E; {b}\nx\nE",
        "{a} <<\\E\nE\n{b}",
        "cat <<E | sh\n{b}\nE",
        "{a}\\\n{b}",
        "{a};\\\n{b}",
    ),
    *(
        "{a} '\n{b}\n'",
        '{a} "\n{b}',
        "{a} $'\\'' ; {b} #'",
        "echo \\\\\n{b}",
        "{a} \\; {b}",
        "{a}&&{b}",
    ),
    *(
        "{a} ${{x#'}} ; {b} #'",
        '{a} "${{x#"}}" ; {b}',
        "{a} $(# )\n{b})",
        "{a} `# `; {b}",
        "{a};{b}",
    ),
    *(
        "eval '{b}'",
        "bash -c '{b}'",
        "trap '{b}' EXIT",
        "echo '{b}' | sh",
        ". <(echo '{b}')",
        "{b}&",
    ),
    *(
        "for ((;;)); do {b}; break; done",
        "select x in 1; do {b}; break; done",
        "{{ {b}\n}}",
        "({b})",
    ),
    *(
        "if ! {a}; then :; else {b}; fi",
        "case $({b}) in *) ;; esac",
        "[[ x =~ $({b}) ]]",
        "{a}|{b}",
    ),
]
REDIRECTS = [
    *("> {}", ">> {}", ">| {}", "&> {}", "&>> {}", ">& {}", "<> {}", "2> {}", "1<> {}", "< {}"),
    *(
        "{{fd}}> {}",
        "{{fd}}< {}",
        "> >(tee {})",
        "3> {}",
        "<& {}",
        "2>&1 > {}",
        ">{}",
        "<{}",
        ">&{}",
    ),
    *("<<< {}", "0< {}", "2>{}", ">&2 2> {}", "< {} >&²", ">&{} 1", "<<E > {}\nE", "<<<x> {}"),
]


def spelled(random: Random, word: str) -> str:
    """Write a word with quotes that do not change it."""
    if not word or any(char in word for char in "'\"\\$`{~*?[ "):
        return word
    cut = random.randrange(len(word) + 1)
    first, rest = word[:cut], word[cut:]
    shapes = [word] * 6 + [f"'{word}'", f'"{word}"', f"{first}''{rest}", f"'{first}'{rest}"]
    shapes += [f'{first}"{rest}"', f"$'{word}'", "".join(f"\\{char}" for char in word)]
    return random.choice(shapes)


@cache
def long_options(program: str) -> tuple[str, ...]:
    """The long options that a program itself lists."""
    try:
        shown = subprocess.run(
            [program, "--help"], capture_output=True, text=True, check=False, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(sorted(set(re.findall(r"--[a-z][a-z0-9-]+", shown.stdout + shown.stderr))))


def path(random: Random, *more: list[str]) -> str:
    """A path, hostile or not."""
    return spelled(random, random.choice(random.choice((INSIDE, SECRET, *more))))


def option(random: Random, program: str) -> str:
    """Any option: a letter, letters, or one that the program lists, with or without a value."""
    letters = string.ascii_letters + string.digits
    value = random.choice(
        (path(random), "recurse", "1", "1,5p", "'%s'", "w x", "1e evil", "always")
    )
    shapes = [f"-{random.choice(letters)}", f"-{random.choice(letters)}{random.choice(letters)}"]
    shapes += [f"-{random.choice(letters)} {value}", f"-{random.choice(letters)}{value}"]
    if known := long_options(program):
        name = random.choice(known)
        shapes += [name, f"{name}={value}", f"{name} {value}", name[: random.randrange(3, 9)]]
    return random.choice(shapes)


def reading(random: Random) -> str:
    """A call of a program that can be harmless."""
    program = random.choice(READERS)
    words = [program]
    words += [option(random, program) for _ in range(random.randrange(3))]
    first = {"grep": "KEY", "egrep": "K", "rg": "KEY", "sed": "1,5p", "tr": "a", "printf": "%s"}
    words += [first[program]] if program in first and random.random() < 0.8 else []
    words += [path(random) for _ in range(random.randrange(4))]
    return " ".join(words)


def globbing(random: Random) -> str:
    """Patterns, tildes and braces in the place of paths."""
    pieces = ["*", "?", "[!x]", "[^x]", "[[:alpha:]]", "[a-z]", "{a,b}", "{1..3}", "~", ".", "env"]
    pieces += ["/", "config", "..", "out", "'*'", "\\*", "!(x)", "@(a|b)", "+([a-z])", "**", "-"]
    word = "".join(random.choice(pieces) for _ in range(random.randrange(1, 5)))
    program = random.choice(["cat", "ls", "head", "grep KEY", "cp evil.json", "rm", "wc", "sort"])
    return f"{program} {random.choice(['', 'src/', './', '../'])}{word} {path(random)}"


def expanding(random: Random) -> str:
    """Expansions that run, assign or calculate."""
    inner = random.choice(PAYLOADS + HARMLESS)
    shape = random.choice(EXPANSIONS).format(inner)
    return f"{random.choice(['echo', 'cat', 'ok', 'ls', 'x=1 ok', 'printf %s'])} {shape}"


def quoting(random: Random) -> str:
    """Pieces of quotes, escapes and operators in any order."""
    pieces = ["'", '"', "\\", "$'", '$"', "`", "\n", "\\\n", " ", ";", "&", "|", "#", "ok", "echo"]
    pieces += ["evil", "cat .env", "touch pwned", "$(", ")", "<<E\n", "\nE\n", "{", "}", "((", "))"]
    return random.choice(["ok ", "echo ", "ls "]) + "".join(
        random.choice(pieces) for _ in range(random.randrange(2, 12))
    )


def redirecting(random: Random) -> str:
    """Redirections of all kinds."""
    target = random.choice(
        [path(random, PROTECTED), "²", "1", "-", "/dev/null", "pwned", "/dev/tty"]
    )
    shape = random.choice(REDIRECTS).format(target)
    command = random.choice(HARMLESS)
    return random.choice(
        [f"{command} {shape}", f"{shape} {command}", shape, f"({command}) {shape}"]
    )


def framing(random: Random) -> str:
    """A payload inside of lists, loops, documents and functions."""
    frame = random.choice(FRAMES)
    inner = random.choice(PAYLOADS)
    if random.random() < 0.3:
        inner = random.choice(FRAMES).format(a=random.choice(HARMLESS), b=inner)
    return frame.format(a=random.choice(HARMLESS), b=inner)


def writing(random: Random) -> str:
    """Programs with an output operand, and those that acceptEdits lets run."""
    program = random.choice([*WRITERS, "uniq", "sort -o", "tee -a", "cp -r", "rm -rf", "mv -n"])
    words = [option(random, program.split()[0])] if random.random() < 0.4 else []
    words += [path(random, PROTECTED, PROTECTED) for _ in range(random.randrange(1, 4))]
    command = " ".join([program, *words])
    return f"{command} && {reading(random)}" if random.random() < 0.3 else command


def steering(random: Random) -> str:
    """A change of the shell's state, and a command that would notice."""
    after = random.choice(
        ["ls", "cat passwd", "cd etc", "cat $x", "git status", "cat *", "$x", "ok"]
    )
    before = random.choice(STATE)
    return f"{before}{random.choice(['; ', ' && ', chr(10), ' | ', ' & '])}{after}"


def assigning(random: Random) -> str:
    """Variables in front of a program."""
    named = " ".join(random.choice(ASSIGNMENTS) for _ in range(random.randrange(1, 3)))
    command = random.choice([*HARMLESS, "bash -c ls", "git diff", "cat $x"])
    return random.choice(
        [f"{named} {command}", f"{named}; {command}", f"export {named}; {command}"]
    )


def launching(random: Random) -> str:
    """A denied program behind another one."""
    inner = random.choice(
        ["curl x", "'curl x'", "evil", "'evil'", "/bin/curl", "\\evil", "$(which evil)"]
    )
    words = [random.choice(LAUNCHERS)]
    if random.random() < 0.3:
        words.insert(0, random.choice(LAUNCHERS))
    return f"{random.choice(['', 'echo x | ', 'ls; '])}{' '.join(words)} {inner}"


def using_git(random: Random) -> str:
    """Calls of git, with options that it lists and others."""
    names = [
        "log",
        "show",
        "diff",
        "grep KEY",
        "cat-file",
        "blame",
        "status",
        "branch",
        "stash show",
    ]
    names += ["archive HEAD", "ls-files", "rev-parse", "tag", "config", "format-patch", "describe"]
    options = [
        "-p",
        "--stat",
        "-L1,1:.env",
        "--output=pwned",
        "--ext-diff",
        "--textconv",
        "-O evil",
    ]
    options += ["--no-index", "-C out", "-c core.pager=evil", "--name-only", "-S KEY", "--oneline"]
    options += [
        "-1",
        "--format=%H",
        "--git-dir=fix",
        "--work-tree=..",
        "-m x",
        "-u",
        "--all",
        "--cached",
    ]
    where = random.choice(
        ["", "", "", "-C fix ", "--git-dir=fix ", "-c core.fsmonitor=evil ", "-P "]
    )
    words = [random.choice(options) for _ in range(random.randrange(3))]
    words += [path(random) for _ in range(random.randrange(3))]
    before = random.choice(["", "", "", "cd fix && ", "cd fix; ", "cd src && ", "cd deep/up; "])
    return f"{before}git {where}{random.choice(names)} {' '.join(words)}"


def moving(random: Random) -> str:
    """Files that change their name, and are read under the new one."""
    source = random.choice(
        ["config", ".env", "deep", "deep/rel", "out", "out.txt", "src", "in.txt"]
    )
    verb = random.choice(["mv", "cp", "cp -r", "cp -a", "cp -P", "ln -s", "ln", "mv -f", "cp -rP"])
    target = random.choice(["c2", "docs", "./c2", "src/c2", "docs/keep.md", ".claude", "nb"])
    name = source.rpartition("/")[2]
    read = random.choice(
        [
            f"cat {target}/*",
            f"cat {target}/prod.key",
            f"cat {target}/{name}",
            f"cat {target}",
            f"cat {target}/up/secret.txt",
            f"grep -r KEY {target}",
            f"cat {target}/{name}/*",
            f"head {target}/{name}/up/secret.txt",
            "git status",
            "cat *",
            f"cat < {target}",
        ]
    )
    return f"{verb} {source} {target}{random.choice([' && ', '; ', chr(10)])}{read}"


GROUPS: dict[str, Callable[[Random], str]] = {
    "assignments": assigning,
    "expansions": expanding,
    "frames": framing,
    "git": using_git,
    "globs": globbing,
    "launchers": launching,
    "moves": moving,
    "quotes": quoting,
    "readers": reading,
    "redirections": redirecting,
    "state": steering,
    "writers": writing,
}

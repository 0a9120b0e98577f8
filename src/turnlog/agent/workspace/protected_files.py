"""Files and directories that programs take commands from: changing one always asks."""

PROTECTED_FOLDERS = frozenset(
    """
    .git .vscode .idea .husky .cargo .devcontainer .yarn .mvn .claude .ssh .gnupg .cursor .zed
    .emacs.d
    """.split()
)
PROTECTED_FILES = frozenset(
    """
    .gitconfig .gitmodules .bashrc .bash_profile .bash_login .bash_aliases .bash_logout .zshrc
    .zprofile .zshenv .zlogin .zlogout .profile .envrc .npmrc .yarnrc .yarnrc.yml .pnp.cjs
    .pnp.loader.mjs .pnpmfile.cjs bunfig.toml .bunfig.toml .bazelrc .bazelversion .bazeliskrc
    .pre-commit-config.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml
    gradle-wrapper.properties maven-wrapper.properties .devcontainer.json .ripgreprc
    pyrightconfig.json .mcp.json .claude.json .vimrc .exrc .nvim.lua .emacs .dir-locals.el .gdbinit
    .lldbinit .pdbrc .irbrc .inputrc .mise.toml mise.toml .tool-versions pip.conf .pypirc .netrc
    """.split()
)

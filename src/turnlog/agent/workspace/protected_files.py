"""Files and directories that programs take commands from: changing one always asks."""

PROTECTED_FOLDERS = frozenset(
    """
    .git .vscode .idea .husky .cargo .devcontainer .yarn .mvn .claude .ssh .gnupg .cursor .zed
    .emacs.d .vim .helix .hg .jj .amazonq .codex .gemini .kiro .opencode .qwen .roo
    .windsurf
    """.split()
)
REPOSITORIES = frozenset((".git", ".hg", ".jj"))
"""Those of them that change with each commit, but for a few files."""
PROTECTED_CONFIG = frozenset(
    """
    autostart direnv environment.d fish git hypr i3 mise nushell nvim powershell sway systemd tmux
    xonsh zsh
    """.split()
)
"""Directories in `.config`."""
PROTECTED_FILES = frozenset(
    """
    .gitconfig .gitmodules .bashrc .bash_profile .bash_login .bash_aliases .bash_logout .zshrc
    .zprofile .zshenv .zlogin .zlogout .profile .cshrc .tcshrc .login .logout .kshrc .mkshrc .shrc
    .shinit .xonshrc .xprofile .xsession .xsessionrc .xinitrc .xserverrc .pam_environment .tmux.conf
    .screenrc .curlrc .wgetrc .mailcap .psqlrc .sqliterc .rprofile .gvimrc .envrc .direnvrc
    .hgrc
    .npmrc .yarnrc .yarnrc.yml .pnp.cjs
    .pnp.loader.mjs .pnpmfile.cjs bunfig.toml .bunfig.toml .bazelrc .bazelversion .bazeliskrc
    .pre-commit-config.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml
    gradle-wrapper.properties maven-wrapper.properties .devcontainer.json .ripgreprc
    pyrightconfig.json .mcp.json .claude.json .aider.conf.yml .crush.json crush.json opencode.json
    opencode.jsonc .vimrc .exrc .nvim.lua .emacs .dir-locals.el .gdbinit
    .lldbinit .pdbrc .irbrc .inputrc .mise.toml mise.toml .tool-versions pip.conf .pypirc .netrc
    """.split()
)
AMBIGUOUS_NAMES = frozenset((".login", ".logout"))
"""Protected names that are also fields: `gh api user --jq .login` writes no file."""

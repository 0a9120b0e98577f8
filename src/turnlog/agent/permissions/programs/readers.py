"""Allowlist of programs that only read, with the options and operands accepted for each.

The documentation is generated from these tables. An option is listed only if it neither writes,
nor runs a program, nor reads a file that is not an operand.
"""

from turnlog.agent.permissions.programs.usage import ProgramUsage

# Not -f, whose file is not an operand, or -R, which follows links.
GREP = ProgramUsage(
    "abcEFGhHiIlLnoPqrsTUvwxyzZ",
    "ABCem",
    """
    basic-regexp byte-offset color colour count extended-regexp files-with-matches
    files-without-match fixed-strings ignore-case initial-tab invert-match line-buffered
    line-number line-regexp no-filename no-messages null null-data only-matching perl-regexp quiet
    recursive silent text version with-filename word-regexp
    """,
    """
    after-context before-context binary-files context exclude exclude-dir include max-count regexp
    """,
    operands="pattern path...",
    optional_first=frozenset(("-e", "--regexp", "--version")),
    takes_numbers=True,
    recursive=frozenset(("-r", "--recursive")),
    selecting="include",
    unselecting="exclude",  # if this comes first, files that match neither are searched
)
DIGEST = ProgramUsage("btz", long="binary tag text zero")
FILES: dict[str, ProgramUsage] = {
    "base64": ProgramUsage("d", "w", "decode", "wrap", operands="path"),
    "cat": ProgramUsage(
        "AbeEnstTuv",
        long="number number-nonblank show-all show-ends show-tabs show-nonprinting squeeze-blank",
    ),
    "cksum": ProgramUsage(),
    "cmp": ProgramUsage(
        "bls", "n", "print-bytes verbose silent quiet", "bytes", operands="path path"
    ),
    "column": ProgramUsage("tx", "cos", "table", "output-separator separator"),
    "comm": ProgramUsage(
        "123z",
        long="check-order nocheck-order total zero-terminated",
        long_values="output-delimiter",
        operands="path path",
    ),
    "cut": ProgramUsage(
        "nsz",
        "bcdf",
        "complement only-delimited zero-terminated",
        "bytes characters delimiter fields output-delimiter",
    ),
    "df": ProgramUsage(
        "ahHiklmPT", "tx", "all human-readable inodes local print-type si total", "type"
    ),
    "diff": ProgramUsage(
        "abBcdeEiNnqrsTtuwyZ",
        "CIFUWx",
        """
        brief color context expand-tabs ignore-all-space ignore-blank-lines ignore-case
        ignore-space-change ignore-tab-expansion ignore-trailing-space minimal new-file normal
        recursive report-identical-files side-by-side suppress-common-lines text unified
        """,
        "exclude ignore-matching-lines label width",
        operands="path path",
        needs_files=True,  # given directories, it follows links and reads files in both
    ),
    "du": ProgramUsage(
        "0abchHklmsSx",
        "Bdt",
        "all apparent-size bytes human-readable null si summarize total one-file-system",
        "block-size exclude max-depth threshold time-style",
        default=(".",),
        listing=frozenset(),
    ),
    "egrep": GREP,
    "expand": ProgramUsage("i", "t", "initial", "tabs"),
    "fgrep": GREP,
    # Not -f and -m, which read other files, -C, which writes one, or -z, which runs programs.
    "file": ProgramUsage(
        "bhiLN", long="brief dereference mime mime-encoding mime-type no-dereference"
    ),
    "fold": ProgramUsage("bs", "w", "bytes spaces", "width"),
    "grep": GREP,
    "head": ProgramUsage(
        "qvz", "cn", "quiet silent verbose zero-terminated", "bytes lines", takes_numbers=True
    ),
    "ls": ProgramUsage(
        "1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ",
        "",
        """
        all almost-all author classify color directory escape file-type full-time
        group-directories-first human-readable inode literal no-group numeric-uid-gid quote-name
        recursive reverse si size
        """,
        "format hide ignore indicator-style quoting-style sort time time-style width",
        default=(".",),
        listing=frozenset(("-R", "--recursive")),
    ),
    "md5sum": DIGEST,
    "nl": ProgramUsage(
        "p", "bdfhilnsvw", "no-renumber", "body-numbering number-format number-width"
    ),
    "od": ProgramUsage(
        "abcdosvx", "AjNt", "output-duplicates", "address-radix format read-bytes skip-bytes"
    ),
    "paste": ProgramUsage("sz", "d", "serial zero-terminated", "delimiters"),
    "readlink": ProgramUsage("efmnqsvz", long="canonicalize no-newline zero"),
    "realpath": ProgramUsage(
        "eLmPqsz",
        long="canonicalize-existing canonicalize-missing logical physical quiet strip zero",
    ),
    "rev": ProgramUsage(),
    # Not --pre, --hostname-bin and -z, which run programs, nor -f and --ignore-file, which read
    # files that are not operands.
    "rg": ProgramUsage(
        "0.aFHiIclnNopPqsSuUvVwx",
        "ABCdegjmMrtT",
        """
        case-sensitive column count count-matches crlf files files-with-matches
        files-without-match fixed-strings glob-case-insensitive heading hidden ignore-case
        invert-match json line-number line-regexp multiline multiline-dotall no-filename
        no-heading no-ignore no-ignore-vcs no-line-number null only-matching passthru pcre2 quiet
        smart-case stats text trim type-list unrestricted version vimgrep with-filename word-regexp
        """,
        """
        after-context before-context color context glob iglob max-columns max-count max-depth
        max-filesize regexp replace sort sortr threads type type-not
        """,
        operands="pattern path...",
        optional_first=frozenset(("-e", "--regexp", "--files", "--type-list", "--version", "-V")),
        default=(".",),
        is_recursive=True,
    ),
    "sha1sum": DIGEST,
    "sha256sum": DIGEST,
    "sha512sum": DIGEST,
    # Not -o and -T, which write, --compress-program, which runs one, or --files0-from and
    # --random-source, which read other files.
    "sort": ProgramUsage(
        "bcCdfghiMmnRrsuVz",
        "kt",
        """
        check dictionary-order human-numeric-sort ignore-case ignore-leading-blanks merge
        month-sort numeric-sort reverse stable unique version-sort zero-terminated
        """,
        "field-separator key",
    ),
    "stat": ProgramUsage("fLt", "c", "dereference file-system terse", "format printf"),
    "tac": ProgramUsage("b", "s", "before", "separator"),
    "tail": ProgramUsage(
        "fFqvz",
        "cns",
        "follow quiet retry silent verbose zero-terminated",
        "bytes lines",
        takes_numbers=True,
    ),
    # Not -o and -R, which write files, or -l, which follows links.
    "tree": ProgramUsage(
        "aACdDfFghiJNpqQrsStuUvx",
        "ILP",
        "dirsfirst du inodes matchdirs noreport prune",
        "filelimit timefmt",
        default=(".",),
        listing=frozenset(),
        values_stand_alone=True,
    ),
    "unexpand": ProgramUsage("a", "t", "all", "tabs"),
    "uniq": ProgramUsage(
        "cdDiuz",
        "fsw",
        "count ignore-case repeated unique zero-terminated",
        "check-chars skip-chars skip-fields",
        operands="path",  # a second operand is overwritten
    ),
    "wc": ProgramUsage("clLmw", long="bytes chars lines max-line-length words"),
    # Not -r, which writes. Only some versions accept joined options: others find `-i` in `-il`,
    # take the `5` behind it for a file to read, and write the next operand.
    "xxd": ProgramUsage("abdeEipu", "cgls", operands="path", values_stand_alone=True),
}
TEXTS: dict[str, ProgramUsage] = {
    ":": ProgramUsage(operands="text..."),
    "arch": ProgramUsage(operands=""),
    "basename": ProgramUsage("az", "s", "multiple zero", "suffix", operands="text..."),
    "dirname": ProgramUsage("z", long="zero", operands="text..."),
    "false": ProgramUsage(operands="text..."),
    "free": ProgramUsage("bghkmtw", long="giga human kilo mega total wide", operands=""),
    "hostname": ProgramUsage(operands=""),  # an operand sets the name, and options may query DNS
    "id": ProgramUsage("Ggnruz", long="group groups name real user zero", operands="user"),
    "nproc": ProgramUsage(long="all", long_values="ignore", operands=""),
    "pwd": ProgramUsage("LP", operands=""),
    "seq": ProgramUsage(
        "w", "fs", "equal-width", "format separator", operands="number number number"
    ),
    "sleep": ProgramUsage(operands="seconds..."),
    "tr": ProgramUsage(
        "cCdst", long="complement delete squeeze-repeats truncate-set1", operands="set set"
    ),
    "true": ProgramUsage(operands="text..."),
    "type": ProgramUsage("afptP", operands="name..."),
    "uname": ProgramUsage(
        "aimnoprsv", long="all kernel-name machine nodename operating-system processor", operands=""
    ),
    "uptime": ProgramUsage("ps", long="pretty since", operands=""),
    "which": ProgramUsage("as", long="all", operands="name..."),
    "whoami": ProgramUsage(operands=""),
}
"""Programs that touch no file, whatever their operands are."""

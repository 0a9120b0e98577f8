"""turnlog's own secret rules for command lines: passwords in options, and values given to stores.

Each rule starts at the name of a program or of a subcommand; see secret_rules.py for the others.
"""

from secret_rules import NEXT_LINE, Rule


def command(kind: str, programs: str, flag: str, check: str = "flag") -> Rule:
    """The value of a flag of some programs."""
    words = programs.split()
    names = "|".join(words)
    value = r"(?:(?P<q>\\{0,8}[\"'])(?P<value>[^\n]{3,300}?)(?<!\\)(?P=q)|(?P<bare>(?:[^\s\"'`\\|;&]|&(?=\w)){3,300}))"
    regex = rf"(?<![\w.])(?:{names})(?:\.exe)?\s(?:[^\n|;]{{0,400}}?\s)??{flag}{value}"
    return Rule(kind, regex, [f"{word} " for word in words], check)


def stored(start: str, *keywords: str) -> Rule:
    """The value that a command puts into a store of secrets."""
    value = r"(?:(?P<q>\\{0,8}[\"'])(?P<value>[^\n]{3,300}?)(?<!\\)(?P=q)|(?P<bare>[^\s\"'`\\|;&]{3,300}))"
    return Rule("secret", start + value, list(keywords), "flag")


COMMANDS = [
    command("password", "curl", r"(?:(?:-[a-zA-Z]{0,6}u|--user|--proxy-user|-U)[ =]?\s{0,4}\\{0,8}[\"']?[^\s:\"'\\]{1,100}:)"),
    command("password", "mysql mysqldump mysqladmin mysqlimport mysqlsh mariadb mariadb-dump mycli", r"-p(?!rotocol)"),
    command("password", "sshpass", r"-p ?"),
    command("password", "mongosh mongodump mongorestore mongoexport mongoimport", r"-p "),
    command("password", "redis-cli valkey-cli", r"(?:-a|--pass) "),
    command("password", "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami", r"-w ?"),
    command("password", "sqlcmd osql bcp", r"-P ?"),
    command("password", "mosquitto_pub mosquitto_sub", r"(?:-P|--pw) "),
    command("password", "zip", r"-P ?"),
    command("password", "unzip", r"-P ?"),
    command("password", "7z 7za 7zz", r"-(?:p|hp)(?!-)"),
    command("password", "plink", r"-pw "),
    command("password", "smbclient", r"-U \\{0,4}[\"']?[^\s%\"']{1,64}%"),
    command("password", "xfreerdp xfreerdp3 wfreerdp", r"/p:"),
    command("password", "rdesktop", r"-p "),
    command("password", "htpasswd", r"-[a-zA-Z]{0,4}b[a-zA-Z]{0,4} (?:\S{1,200} )?\S{1,64} "),
    command("password", "docker skopeo", r"-p "),
    command("password", "az twine vault", r"-p ", "password"),
    command("password", "openssl", r"-k "),
    command("password", "useradd usermod", r"(?:-p|--password) "),
    command("password", "keytool jarsigner", r"-(?:store|key|deststore|srcstore)pass "),
    command("password", "wpa_passphrase", r"(?:\\{0,4}[\"'][^\"'\\]{1,32}\\{0,4}[\"']|\S{1,32}) "),
    command("password", "impacket-psexec psexec", r"-p ", "password"),
    command("password", "nmcli", r"(?:password|(?:802-11-wireless-security|wifi-sec)\.psk) "),
    command("secret", "oc", r"--token[= ]"),
    Rule("password", r"(?<![\w.])(?:sqlplus|expdp|impdp|sqlldr)\s(?:[^\n|;]{0,100}?\s)??\\{0,4}[\"']?\w{1,30}/(?P<value>[^\s\"'`\\@/]{3,64})@(?=[\w/])",
         ["sqlplus ", "expdp ", "impdp ", "sqlldr "], "flag"),
    Rule("password", r"(?:impacket-\w{3,20}|(?:psexec|secretsdump|wmiexec|smbexec|atexec|dcomexec|mssqlclient)\.py)\s(?:[^\n|;]{0,200}?\s)??\\{0,4}[\"']?"
         r"(?:[\w.-]{1,60}/)?[\w.$-]{1,64}:(?P<value>[^\s\"'`\\@]{3,100})@(?=[\w.])",
         ["impacket-", "psexec.py ", "secretsdump.py ", "wmiexec.py ", "smbexec.py ", "atexec.py ", "dcomexec.py ", "mssqlclient.py "], "flag"),
    Rule("password", r"(?:assword|assphrase)[^\n]{0,20}(?:\s|\\n|[;{]){1,20}" + NEXT_LINE + r"(?:exp_)?send (?:-- )?\\{0,4}\"(?P<value>[^\n\"\\$]{4,100}?)\\{1,4}[rn]",
         ["send \"", "send -- \"", "send \\"], "flag", back=100),
    Rule("password", r"pass:(?P<bare>[^\s\"'\\]{4,200})", ["-passin pass:", "-passout pass:", "-pass pass:",
         "-k pass:"], "flag"),
    Rule("password", r"-pass(?:in|out)? pass:(?P<bare>[^\s\"'\\]{4,200})",
         ["-passin pass:", "-passout pass:", "-pass pass:"], "flag"),
    Rule("password", r"(?:echo|printf)(?: -[neE]+)? \\{0,4}[\"']?(?:[a-z_][\w.-]{0,31}:)?(?!\$\w{1,40}\s)(?P<value>[^\n\"'|\\]{4,200}?)"
         r"(?:\\n)?\\{0,4}[\"']?\s{0,4}\|(?:[^|\n]{0,120}?(?:chpasswd|--password-stdin|sudo -S|--with-token|--stdin|passwd\b)"
         r"|\s{0,4}(?:npx |sudo )?(?:kinit\b|wrangler secret put|pass insert))",
         ["kinit", "wrangler secret put", "pass insert", "chpasswd", "--password-stdin", "--with-token", "sudo -S", "passwd --stdin", "| passwd"], "flag", back=400),
    Rule("password", r"(?:chpasswd|--stdin|--password-stdin|--with-token) <<< ?\\{0,4}[\"']?(?:[a-z_][\w.-]{0,31}:)?(?P<value>[^\n\"'|\\\s]{4,200})",
         ["chpasswd <<<", "--stdin <<<", "--password-stdin <<<", "--with-token <<<"], "flag"),
    Rule("password", r"ConvertTo-SecureString(?: -String)? \\{0,4}[\"'](?P<value>[^\n\"']{4,200})[\"']",
         ["ConvertTo-SecureString "], "flag"),
    Rule("password", r"(?:^|(?<=\\n)|(?<=[\s\"'|]))(?:root|ec2-user|ubuntu|debian|vagrant|deploy):(?P<bare>[^\s:\"'`\\]{6,128})(?=\s|\\|[\"'`]|$)",
         ["root:", "ec2-user:", "ubuntu:", "debian:", "vagrant:", "deploy:"], "login", glued="no"),
    Rule("password", rf"login\s{{1,8}}\S{{1,100}}\s{{1,8}}{NEXT_LINE}(?:account\s{{1,4}}\S{{1,64}}\s{{1,8}}{NEXT_LINE})?password\s{{1,8}}"
         r"(?P<bare>[^\s\"'`\\]{4,200})", ["login ", "login\t"], "password"),
    Rule("password", r"[\w.*-]{1,100}:(?:5432|5433|6432|26257|\*):[^\s:]{1,64}:[^\s:]{1,64}:(?P<value>(?:[^\s:\\]|\\[:\\]){4,200})"
         r"(?=\s|$|\\|[\"'])", [":5432:", ":5433:", ":*:"], "flag", back=100),
    stored(r"--from-literal[= ][\w.-]{1,100}=", "--from-literal"),
    stored(r"gh secret set [^\n|;]{1,200}?(?:-b|--body)[ =]", "gh secret set "),
    stored(r"ssm put-parameter [^\n|;]{0,300}?--value[ =](?=[^\n|;]{0,300}SecureString)", "ssm put-parameter "),
    stored(r"http-basic\.[\w.-]{1,60} \S{1,100} ", "http-basic."),
    stored(r"pypi-token\.[\w.-]{1,60} ", "pypi-token."),
    stored(r"rabbitmqctl (?:add_user|change_password) \S{1,64} ", "rabbitmqctl "),
    Rule("password", r"net use [^\n]{1,200}? (?P<bare>[^\s/\"'\\]{4,64}) /(?i:user):", ["net use "], "flag"),
    stored(r"--secret-string[ =]", "--secret-string"),
    stored(r"keyvault secret set [^\n|;]{0,300}?--value[ =]", "keyvault secret set "),
    Rule("password", r"net use [^\n]{1,200}? /(?i:user):[^\s\"']{1,100} (?P<bare>[^\s/\"'\\]{4,64})(?=\s|$|\\|[\"'])", ["net use "], "flag"),
    stored(r"user-secrets set \\{0,4}[\"']?[\w:.-]{1,100}\\{0,4}[\"']? ", "user-secrets set "),
    Rule("secret", r"kubeadm join [^\n]{1,200}?--token (?P<value>[a-z0-9]{6}\.[a-z0-9]{16})", ["kubeadm join"]),
]  # fmt: skip

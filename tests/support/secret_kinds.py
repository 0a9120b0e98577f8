"""Kinds of secrets, each as text around a random value: what a scanner must find.

Values are made from each kind's format with a seeded generator; none of them is or was a secret.
`@` in a frame is where the value stands.
"""

import base64
import json
import string
from collections.abc import Callable
from random import Random

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BASE64 = ALNUM + "+/"
SYMBOLS = ALNUM + "!#$%^*_+=~?.-"

Make = Callable[[Random], str]


def some(count: int, letters: str = ALNUM) -> Make:
    """Random letters; the first and the last are no punctuation, as where tokens begin and end."""
    plain = "".join(each for each in letters if each.isalnum())

    def make(random: Random) -> str:
        middle = "".join(random.choices(letters, k=count - 2))
        return random.choice(plain) + middle + random.choice(plain)

    return make


def joined(*parts: str | Make) -> Make:
    return lambda random: "".join(p if isinstance(p, str) else p(random) for p in parts)


def uuid(random: Random) -> str:
    return "-".join(some(count, HEX)(random) for count in (8, 4, 4, 4, 12))


def password(random: Random) -> str:
    """Return a password like those of password managers: characters of all classes."""
    letters = [random.choice(each) for each in (string.ascii_letters, string.digits, "#$!%*+=?^~")]
    letters += random.choices(SYMBOLS, k=11)
    random.shuffle(letters)
    return random.choice(ALNUM) + "".join(letters) + random.choice(ALNUM)


def shell_password(random: Random) -> str:
    """A password that a shell takes without quotes."""
    letters = [*random.choices(ALNUM, k=11), random.choice(string.digits), random.choice("%+=.^_")]
    random.shuffle(letters)
    return "k" + "".join(letters) + "4"


def short_token(random: Random) -> str:
    """A token of 14 characters, some of them capitals and digits."""
    return "K" + some(10)(random) + "7qz"


def encoded(make: Make, url: bool = False) -> Make:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    return lambda random: encode(make(random).encode()).decode()


def part(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def jwt(random: Random) -> str:
    body = part(json.dumps({"sub": some(8)(random), "iat": random.randrange(10**9)}))
    return ".".join([part('{"alg":"HS256","typ":"JWT"}'), body, some(43, URLSAFE)(random)])


def pem(label: str) -> Make:
    def make(random: Random) -> str:
        body = "\n".join(some(64, BASE64)(random) for _ in range(8))
        return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"

    return make


def lines_of(count: int, length: int = 64) -> Make:
    return lambda random: "\n".join(some(length, BASE64)(random) for _ in range(count))


def words(count: int) -> Make:
    pool = """abandon ability able about above absent absorb abstract absurd abuse access accident
    account accuse achieve acid acoustic acquire across act action actor actress actual adapt add
    addict address adjust admit adult advance advice aerobic affair afford afraid again age agent
    agree ahead aim air airport aisle alarm album alcohol alert alien all alley allow almost alone
    alpha already also alter always amateur amazing among amount amused analyst anchor""".split()
    chosen = [word for word in pool if 3 <= len(word) <= 8]
    return lambda random: " ".join(random.sample(chosen, count))


def base32(count: int) -> Make:
    return some(count, string.ascii_uppercase + "234567")


TOKENS: dict[str, Make] = {
    "anthropic api": joined("sk-ant-", "api03-", some(93, URLSAFE), "AA"),
    "anthropic admin": joined("sk-ant-", "admin01-", some(93, URLSAFE), "AA"),
    "anthropic oauth": joined("sk-ant-", "oat01-", some(86, URLSAFE), "AA"),
    "anthropic session": joined("sk-ant-", "sid01-", some(86, URLSAFE), "AA"),
    "openai project": joined("sk-", "proj-", some(124, URLSAFE)),
    "openai service account": joined("sk-", "svcacct-", some(124, URLSAFE)),
    "openai legacy": joined("sk-", some(20), "T3Blbk", "FJ", some(20)),
    "openrouter": joined("sk-", "or-v1-", some(64, HEX)),
    "groq": joined("gsk", "_", some(52)),
    "xai": joined("xai", "-", some(80)),
    "perplexity": joined("pplx", "-", some(48)),
    "hugging face": joined("hf", "_", some(34)),
    "replicate": joined("r8", "_", some(37)),
    "together": joined("tgp", "_v1_", some(43, URLSAFE)),
    "fireworks": joined("fw", "_", some(24)),
    "cerebras": joined("csk", "-", some(48)),
    "nvidia": joined("nvapi", "-", some(64, URLSAFE)),
    "pinecone": joined("pcsk", "_", some(70)),
    "langfuse": joined("sk-", "lf-", uuid),
    "langsmith": joined("lsv2", "_pt_", some(32, HEX), "_", some(10, HEX)),
    "tavily": joined("tvly", "-", some(32)),
    "firecrawl": joined("fc", "-", some(32, HEX)),
    "jina": joined("jina", "_", some(60)),
    "e2b": joined("e2b", "_", some(40, HEX)),
    "elevenlabs": joined("sk", "_", some(48, HEX)),
    "wandb": joined("wandb", "_v1_", some(60)),
    "runpod": joined("rpa", "_", some(42, UPPER)),
    "deepseek": joined("sk", "-", some(32, HEX)),
    "aws access key": joined("AKI", "A", some(16, string.ascii_uppercase + "234567")),
    "aws temporary key": joined("ASI", "A", some(16, string.ascii_uppercase + "234567")),
    "aws bedrock": joined("ABS", "K", some(100, BASE64)),
    "aws appsync": joined("da2", "-", some(26, LOWER)),
    "google api": joined("AI", "za", some(35, URLSAFE)),
    "google oauth secret": joined("GOC", "SPX-", some(28, URLSAFE)),
    "google access token": joined("ya", "29.", some(120, URLSAFE)),
    "google refresh token": joined("1/", "/0", some(100, URLSAFE)),
    "azure client secret": joined(some(3), "8Q", "~", some(34)),
    "azure devops": joined(some(76), "AZD", "O", some(4)),
    "digitalocean": joined("dop", "_v1_", some(64, HEX)),
    "alibaba": joined("LT", "AI", some(20)),
    "tencent": joined("AK", "ID", some(32)),
    "scaleway": joined("SC", "W", some(17, UPPER)),
    "yandex": joined("AQ", "VN", some(36, URLSAFE)),
    "cloudflare origin": joined("v1", ".0-", some(24, HEX), "-", some(146, HEX)),
    "heroku": joined("HRK", "U-", some(60)),
    "fly": joined("fm", "2_", some(120, BASE64)),
    "render": joined("rnd", "_", some(32)),
    "netlify": joined("nf", "p_", some(36)),
    "vercel": joined("vc", "p_", some(56)),
    "vercel blob": joined("vercel", "_blob_rw_", some(16), "_", some(30)),
    "supabase": joined("sb", "p_", some(40, HEX)),
    "supabase secret": joined("sb", "_secret_", some(31)),
    "neon": joined("na", "pi_", some(64, LOWER)),
    "planetscale": joined("pscale", "_tkn_", some(43)),
    "databricks": joined("da", "pi", some(32, HEX)),
    "mongodb atlas": joined("mdb", "_sa_sk_", some(40)),
    "doppler": joined("dp", ".pt.", some(43)),
    "vault": joined("hv", "s.", some(92)),
    "terraform": joined(some(14), ".atlas", "v1.", some(67)),
    "pulumi": joined("pu", "l-", some(40, HEX)),
    "infracost": joined("ic", "o-", some(32)),
    "tailscale": joined("tskey", "-auth-", some(12), "-", some(32)),
    "github classic": joined("gh", "p_", some(36)),
    "github oauth": joined("gh", "o_", some(36)),
    "github app": joined("gh", "s_", some(36)),
    "github refresh": joined("gh", "r_", some(76)),
    "github fine-grained": joined("github", "_pat_", some(22), "_", some(59)),
    "gitlab": joined("gl", "pat-", some(20)),
    "gitlab deploy": joined("gl", "dt-", some(20)),
    "gitlab runner": joined("gl", "rt-", some(20)),
    "bitbucket app password": joined("AT", "BB", some(24), some(8, "0123456789ABCDEF")),
    "atlassian": joined("ATA", "TT3xFfGF0", some(180, URLSAFE), "=", some(8, "0123456789ABCDEF")),
    "circleci": joined("CCI", "PAT_", some(22), "_", some(40, HEX)),
    "buildkite": joined("bk", "ua_", some(40, LOWER)),
    "sourcegraph": joined("sg", "p_", some(40, HEX)),
    "sonarqube": joined("sq", "u_", some(40, HEX)),
    "npm": joined("np", "m_", some(36)),
    "pypi": joined("py", "pi-AgEIcHlwaS5vcmc", some(160, URLSAFE)),
    "rubygems": joined("ruby", "gems_", some(48, HEX)),
    "nuget": joined("oy", "2", some(43, LOWER)),
    "clojars": joined("CLO", "JARS_", some(60, HEX)),
    "docker": joined("dckr", "_pat_", some(27)),
    "docker swarm": joined("SWM", "TKN-1-", some(50, LOWER), "-", some(25, LOWER)),
    "packagist": joined("packagist", "_ort_", some(68, HEX)),
    "postman": joined("PM", "AK-", some(24, HEX), "-", some(34, HEX)),
    "figma": joined("fi", "gd_", some(40)),
    "linear": joined("lin", "_api_", some(40)),
    "notion": joined("nt", "n_", some(46)),
    "notion old": joined("sec", "ret_", some(43)),
    "airtable": joined("pat", some(14), ".", some(64, HEX)),
    "clickup": joined("p", "k_41771983_", some(32, UPPER)),
    "trello": joined("AT", "TA", some(64, HEX), some(8)),
    "slack bot": joined("xox", "b-241731984352-2417319843521-", some(24)),
    "slack user": joined("xox", "p-241731984352-241731984352-2417319843521-", some(32, HEX)),
    "slack app": joined("xap", "p-1-", some(11, UPPER), "-2417319843521-", some(64, HEX)),
    "discord bot": joined(lambda r: part(str(r.randrange(10**17, 10**18)))[:24], ".", some(6), ".",
                          some(38, URLSAFE)),
    "telegram": joined("4177198342:", "AA", some(33, URLSAFE)),
    "twilio": joined("S", "K", some(32, HEX)),
    "sendgrid": joined("S", "G.", some(22), ".", some(43)),
    "mailgun": joined("key", "-", some(32, HEX)),
    "mailchimp": joined(some(32, HEX), "-us", "14"),
    "resend": joined("r", "e_", some(8), "_", some(24)),
    "brevo": joined("xkeysib", "-", some(64, HEX), "-", some(16)),
    "stripe live": joined("sk", "_live_", some(24)),
    "stripe restricted": joined("rk", "_live_", some(24)),
    "stripe webhook": joined("wh", "sec_", some(32)),
    "square": joined("sq", "0atp-", some(22, URLSAFE)),
    "shopify": joined("shp", "at_", some(32, HEX)),
    "razorpay": joined("rzp", "_live_", some(14)),
    "plaid": joined("access", "-production-", uuid),
    "flutterwave": joined("FLW", "SECK-", some(32, LOWER), "-X"),
    "mollie": joined("li", "ve_", some(30)),
    "easypost": joined("EZ", "AK", some(54)),
    "shippo": joined("shippo", "_live_", some(40, HEX)),
    "duffel": joined("duffel", "_live_", some(43, URLSAFE)),
    "paddle": joined("pdl", "_live_apikey_", some(26, LOWER), "_", some(22), "_", some(3)),
    "new relic": joined("NR", "AK-", some(27, UPPER)),
    "grafana": joined("gl", "sa_", some(32), "_", some(8, HEX)),
    "honeycomb": joined("hca", "ik_", some(58, LOWER)),
    "sentry org": joined("sntry", "s_eyJ", some(100), "_", some(43)),
    "sentry user": joined("sntry", "u_", some(64, HEX)),
    "dynatrace": joined("dt0", "c01.", some(24, UPPER), ".", some(64, UPPER)),
    "posthog": joined("ph", "x_", some(43)),
    "launchdarkly": joined("sd", "k-", uuid),
    "mapbox": joined("s", "k.eyJ", some(80), ".", some(22)),
    "contentful": joined("CFP", "AT-", some(43, URLSAFE)),
    "typeform": joined("tf", "p_", some(58)),
    "hubspot": joined("pat", "-na1-", uuid),
    "dropbox": joined("s", "l.", some(130, URLSAFE)),
    "facebook": joined("EA", "A", some(150)),
    "prefect": joined("pn", "u_", some(36)),
    "readme": joined("rd", "me_", some(70, LOWER)),
    "onesignal": joined("os", "_v2_app_", some(100, LOWER)),
    "inngest": joined("sign", "key-prod-", some(64, HEX)),
    "trigger.dev": joined("tr", "_prod_", some(24)),
    "polar": joined("polar", "_oat_", some(43)),
    "openshift": joined("sha256", "~", some(43, URLSAFE)),
    "adobe": joined("p8", "e-", some(32)),
    "dub": joined("du", "b_", some(24)),
    "frame.io": joined("fio", "-u-", some(64)),
    "google new key": joined("AQ", ".Ab8R", some(46)),
    "infisical": joined("s", "t.", some(24, HEX), ".", some(32, HEX), ".", some(32, HEX)),
    "stytch": joined("secret", "-live-", some(36), "="),
    "telnyx": joined("KEY", "0", some(31, "0123456789ABCDEF"), "_", some(22)),
    "yandex oauth": joined("y", "0_", "AgAAAA", some(50)),
    "rancher": joined("token", "-", some(5, LOWER), ":", some(54, LOWER)),
    "age": joined("AGE-", "SECRET-KEY-1", some(58, UPPER)),
    "adyen": joined("AQ", "E", some(90), "-", some(43), "-", some(16)),
    "axiom": joined("xa", "at-", uuid),
    "bitbucket app": joined("AT", "BB", some(32)),
    "brave": joined("BS", "A", some(28)),
    "brevo smtp": joined("xsmtp", "sib-", some(64, HEX), "-", some(16)),
    "browserbase": joined("bb_", "live_", some(27, URLSAFE)),
    "context7": joined("ctx7", "sk-", uuid),
    "crates": joined("ci", "o", some(32)),
    "cursor": joined("crs", "r_", some(64, HEX)),
    "daytona": joined("dt", "n_", some(64, HEX)),
    "intercom": joined("dG9", "rO", some(55), "="),
    "klaviyo": joined("pk", "_", some(34, HEX)),
    "launchdarkly api": joined("ap", "i-", uuid),
    "modal": joined("as", "-", some(22)),
    "newrelic license": joined(some(36, HEX), "FFFF", "NRAL"),
    "onepassword service": joined("ops", "_eyJ", some(300)),
    "onepassword key": joined("A", "3-", "-".join(["2K7Q9X", "BM4TZ1"]), "-", base32(5), "-7", base32(4), "-", base32(5), "-", base32(5)),
    "statsig": joined("sec", "ret-", some(43)),
    "voyage": joined("p", "a-", some(43, URLSAFE)),
    "bitcoin extended key": joined("xp", "rv", some(107, BASE58)),
    "jwt": jwt,
    "bcrypt": joined("$2", "b$12$", some(53)),
    "sha512 crypt": joined("$6", "$", some(16), "$", some(86)),
    "sha256 crypt": joined("$5", "$rounds=5000$", some(16), "$", some(43)),
    "yescrypt": joined("$y", "$j9T$", some(22), "$", some(43)),
    "md5 crypt": joined("$1", "$", some(8), "$", some(22)),
    "apr1": joined("$ap", "r1$", some(8), "$", some(22)),
    "argon2": joined("$argon2", "id$v=19$m=65536,t=3,p=4$", some(22), "$", some(43)),
    "django hash": joined("pbkdf2_", "sha256$600000$", some(22), "$", some(43), "="),
    "werkzeug hash": joined("scrypt", ":32768:8:1$", some(16), "$", some(128, HEX)),
    "ldap hash": joined("{SS", "HA}", some(38, BASE64)),
}  # fmt: skip
"""Tokens that are known by themselves."""

FRAMED: list[tuple[str, str, Make]] = [
    ("rsa key", "@", pem("RSA PRIVATE KEY")),
    ("pkcs8 key", "@", pem("PRIVATE KEY")),
    ("encrypted key", "@", pem("ENCRYPTED PRIVATE KEY")),
    ("ec key", "@", pem("EC PRIVATE KEY")),
    ("openssh key", "@", pem("OPENSSH PRIVATE KEY")),
    ("pgp key", "@", pem("PGP PRIVATE KEY BLOCK")),
    ("putty key", "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n@\nPrivate-MAC: " + "a1" * 32,
     lines_of(2)),
    ("jwk", '{"kty":"EC","crv":"P-256","x":"f83OJ3D2","d":"@"}', some(43, URLSAFE)),
    ("jwk symmetric", '{"kty": "oct", "kid": "one", "k": "@"}', some(43, URLSAFE)),
    ("pem in base64", "tls.key: @", encoded(pem("PRIVATE KEY"))),
    ("kube client key", "    client-key-data: @\n", encoded(pem("RSA PRIVATE KEY"))),
    ("kube token", "users:\n- name: a\n  user:\n    token: @\n", jwt),
    ("kube secret", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  conf: @\n",
     encoded(password)),
    ("kube secret string", "kind: Secret\nmetadata:\n  name: a\nstringData:\n  conf: @\n", password),
    ("kubeadm token", "kubeadm join 10.0.0.1:6443 --token @ --discovery", joined(some(6, LOWER), ".", some(16, LOWER))),
    ("docker auth", '{"auths": {"https://index.docker.io/v1/": {"auth": "@"}}}', encoded(joined("ada:", password))),
    ("wireguard private", "[Interface]\nPrivateKey = @\n", joined(some(42, BASE64), "A=")),
    ("wireguard preshared", "PresharedKey = @\n", joined(some(42, BASE64), "Q=")),
    ("netrc", "machine api.host login ada password @\n", password),
    ("netrc lines", "machine api.host\n  login ada\n  password @\n", password),
    ("pgpass", "db.host:5432:main:ada:@\n", shell_password),
    ("mysql -p", "mysql -u root -p@ shop", shell_password),
    ("mysqldump -p", "mysqldump -h db -uroot -p'@' shop > a.sql", password),
    ("sshpass", "sshpass -p '@' ssh ada@host", password),
    ("sshpass bare", "sshpass -p @ ssh ada@host", shell_password),
    ("kubectl literal", "kubectl create secret generic a --from-literal=db=@", shell_password),
    ("gh secret", "gh secret set DEPLOY --repo a/b --body @", shell_password),
    ("aws secretsmanager", "aws secretsmanager create-secret --name a --secret-string @", shell_password),
    ("az secret", "az keyvault secret set --vault-name v --name a --value @", shell_password),
    ("subscript", "os.environ['DB_PASSWORD'] = '@'", password),
    ("curl -u", "curl -s -u ada:@ https://host/x", shell_password),
    ("curl --user", "curl --user 'ada:@' https://host/x", password),
    ("redis-cli -a", "redis-cli -h cache -a @ ping", shell_password),
    ("mongosh -p", "mongosh --host db -u ada -p '@'", password),
    ("ldapsearch -w", "ldapsearch -D cn=admin -w @ -b dc=x", shell_password),
    ("sqlcmd -P", "sqlcmd -S db -U sa -P '@' -Q 'select 1'", password),
    ("bearer of 14", "Authorization: Bearer @\n", short_token),
    ("cookie of 14", "Cookie: sessionid=@; a=b\n", short_token),
    ("set-cookie of 14", "Set-Cookie: session=@; HttpOnly\n", short_token),
    ("mssql login", "CREATE LOGIN bob WITH PASSWORD = N'@';", password),
    ("mysql set password", "SET PASSWORD FOR bob = PASSWORD('@');", password),
    ("literal f-string", 'password = f"@"', password),
    ("setx", "setx DB_PASSWORD @\n", short_token),
    ("terraform variable", 'variable "db_password" { default = "@" }', password),
    ("terraform key", 'variable "api_token" {\n  type = string\n  default = "@"\n}', some(32)),
    ("nmcli", "nmcli dev wifi connect net password @\n", shell_password),
    ("user-secrets", 'dotnet user-secrets set "Db:Password" "@"', password),
    ("oc login", "oc login --token=@ https://api.host\n", short_token),
    ("sqlplus", "sqlplus scott/@\x01orcl", shell_password),
    ("impacket", "impacket-psexec corp/bob:@\x0110.0.0.5", shell_password),
    ("bcp", "bcp db.t out x -U sa -P @\n", shell_password),
    ("net use user", "net use Z: \\\\h\\s /user:bob @\n", shell_password),
    ("kinit", "echo @ | kinit bob", shell_password),
    ("wrangler", "echo @ | npx wrangler secret put API_SECRET", some(32)),
    ("pass insert", "echo '@' | pass insert -e x", password),
    ("expect", 'expect "assword:"\nsend "@\\r"\n', shell_password),
    ("ntlm dump", "Administrator:500:@:::", joined(some(32, HEX), ":", some(32, HEX))),
    ("scrypt crypt", "@\n", joined("$7", "$C6..../....", some(22), "$", some(43))),
    ("scram", "@\n", joined("SCRAM", "-SHA-256$4096:", some(22, BASE64), "==$", some(43, BASE64), "=:", some(43, BASE64), "=")),
    ("convex", "prod:happy-cat-123|@\n", some(80, BASE64)),
    ("ini pass", "[db]\npass = @\n", joined(some(16), "7a8B9c")),
    ("flag and word", "tool\n  --api-key @ run", some(32)),
    ("docker stdin unquoted", "echo @ | docker login -u ada --password-stdin", shell_password),
    ("chpasswd user", "echo 'bob:@' | chpasswd", shell_password),
    ("docker login", "docker login -u ada -p @ registry.host", shell_password),
    ("docker stdin", "echo '@' | docker login -u ada --password-stdin", password),
    ("chpasswd", "echo 'root:@' | chpasswd", password),
    ("sudo -S", "echo @ | sudo -S apt update", shell_password),
    ("cloud-init", "chpasswd:\n  list: |\n    root:@\n", shell_password),
    ("zip -P", "zip -r -P @ out.zip dir", shell_password),
    ("7z -p", "7z a -p@ out.7z dir", shell_password),
    ("openssl pass", "openssl rsa -in k.pem -passin pass:@ -out k", shell_password),
    ("gpg passphrase", "gpg --batch --passphrase '@' -c file", password),
    ("keytool", "keytool -genkey -storepass @ -alias a", shell_password),
    ("htpasswd", "htpasswd -bc .htpasswd ada @", shell_password),
    ("smbclient", "smbclient //host/share -U ada%@", shell_password),
    ("plink", "plink -ssh ada@host -pw @ ls".replace("ada@host", "host"), shell_password),
    ("powershell", 'ConvertTo-SecureString "@" -AsPlainText -Force', password),
    ("PGPASSWORD", "PGPASSWORD=@ psql -h db", joined("xK9#mP2$", some(8))),
    ("MYSQL_PWD", "MYSQL_PWD=@ mysql", shell_password),
    ("env password", "DB_PASSWORD=@\nDB_HOST=x\n", password),
    ("env export", "export SMTP_PASS=@\n", shell_password),
    ("env quoted", "ADMIN_PASSWORD='@'\n", password),
    ("env api key", "COHERE_API_KEY=@\n", some(40)),
    ("env token", "SLACK_SIGNING_SECRET=@\n", some(32, HEX)),
    ("env key", "SENDINBLUE_KEY=@\n", some(40)),
    ("flag --password", "tool login --user ada --password @ --now", shell_password),
    ("flag --password=", "tool login --password=@", shell_password),
    ("flag --token", "gh auth login --with --token @", some(40)),
    ("flag --api-key", "tool --api-key=@ run", some(32)),
    ("flags as a list", '["tool", "--password", "@"]', shell_password),
    ("json password", '{"user": "ada", "password": "@"}', password),
    ("json api key", '{"api_key": "@"}', some(24)),
    ("json access token", '{"access_token": "@", "expires_in": 3600}', some(40)),
    ("json client secret", '{"clientSecret": "@"}', some(32, URLSAFE)),
    ("json name and value", '{"name": "DB_PASSWORD", "value": "@"}', password),
    ("yaml password", "database:\n  user: ada\n  password: @\n", password),
    ("yaml quoted", 'database:\n  password: "@"\n', password),
    ("yaml api key", "api_key: @\n", some(32)),
    ("yaml env list", "- name: API_TOKEN\n  value: @\n", some(32)),
    ("toml", 'password = "@"\n', password),
    ("ini", "[client]\nuser=ada\npassword=@\n", shell_password),
    ("properties", "spring.datasource.password=@\n", shell_password),
    ("xml element", "<server><password>@</password></server>", shell_password),
    ("xml attribute", '<add key="ApiKey" value="@" />', some(32)),
    ("xml password attribute", '<user name="ada" password="@"/>', shell_password),
    ("python", 'client = Client(api_key="@")', some(32)),
    ("typed python", 'API_KEY: str = "@"', some(32)),
    ("javascript", "const apiSecret = '@';", some(32)),
    ("go", 'password := "@"', password),
    ("ruby", ":password => '@',", password),
    ("php", "'DB_PASSWORD' => '@',", password),
    ("wordpress salt", "define('AUTH_KEY',         '@');", some(64, ALNUM + "!@#$%^&*()-_ []{}<>~`+=,.;:/?|".replace("@", ""))),
    ("django secret", "SECRET_KEY = 'django-insecure-@'", some(50, ALNUM + "!#$%^&*(-_=+)")),
    ("laravel key", "APP_KEY=base64:@\n", joined(some(43, BASE64), "=")),
    ("rails secret", "secret_key_base: @\n", some(128, HEX)),
    ("terraform file", 'resource "x" "y" {\n  master_password = "@"\n}', password),
    ("terraform state", '"attributes": {"secret_string": "@"}', password),
    ("ansible", "ansible_become_password: @\n", shell_password),
    ("sql", "CREATE USER ada WITH PASSWORD '@';", password),
    ("sql identified by", "CREATE USER 'ada'@'%' IDENTIFIED BY '%s';".replace("'@'", "'a'").replace("%s", "@"), password),
    ("redis conf", "requirepass @\n", shell_password),
    ("wpa", 'network={\n  ssid="home"\n  psk="@"\n}', password),
    ("postgres url", "postgres://app:@@db.local:5432/main".replace("@@", "\0@").replace("\0", "@"), shell_password),
    ("mysql url", "mysql+pymysql://app:@\x01db/main", shell_password),
    ("mongodb url", "mongodb+srv://app:@\x01cluster0.mongodb.net/x", shell_password),
    ("redis url", "redis://:@\x01127.0.0.1:6379/0", shell_password),
    ("amqp url", "amqps://ada:@\x01rabbit/vhost", shell_password),
    ("mssql url", "mssql://sa:@\x01db:1433/x", shell_password),
    ("clickhouse url", "clickhouse://default:@\x01ch:9000/x", shell_password),
    ("ftp url", "ftp://ada:@\x01host/dir", shell_password),
    ("smtp url", "smtps://ada:@\x01mail.host:465", shell_password),
    ("ldap url", "ldap://cn:@\x01ldap.host", shell_password),
    ("nats url", "nats://ada:@\x01nats:4222", shell_password),
    ("basic auth url", "https://ada:@\x01host.example.org/x", shell_password),
    ("git token url", "https://oauth2:@\x01gitlab.host/a/b.git", some(26)),
    ("bare token url", "https://@\x01git.host/a/b.git", some(40)),
    ("proxy url", "http_proxy=http://ada:@\x01proxy:3128", shell_password),
    ("jdbc url", "jdbc:postgresql://db/main?user=ada&password=@&ssl=true", shell_password),
    ("ado string", "Server=db;Database=x;User Id=sa;Password=@;Encrypt=true", shell_password),
    ("ado pwd", "Server=db;Uid=sa;Pwd=@;", shell_password),
    ("azure storage", "AccountName=a;AccountKey=@;EndpointSuffix=b", joined(some(86, BASE64), "==")),
    ("azure service bus", "Endpoint=sb://a/;SharedAccessKeyName=b;SharedAccessKey=@", joined(some(43, BASE64), "=")),
    ("azure sas", "https://a.blob.core.windows.net/c?sv=2022&sp=r&sig=@", joined(some(43, ALNUM), "%3D")),
    ("s3 signed url", "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=@", some(64, HEX)),
    ("gcs signed url", "https://storage.googleapis.com/b/k?X-Goog-Signature=@", some(512, HEX)),
    ("cloudfront url", "https://d1.cloudfront.net/a?Expires=1&Signature=@&Key-Pair-Id=K1", some(172, ALNUM + "-~")),
    ("aws secret", "aws_secret_access_key = @\n", some(40, BASE64)),
    ("aws secret json", '{"SecretAccessKey": "@"}', some(40, BASE64)),
    ("aws session token", "aws_session_token = @\n", joined(some(300, BASE64), "=")),
    ("gcp service account", '{"type": "service_account", "private_key": "@"}', lambda r: pem("PRIVATE KEY")(r).replace("\n", "\\n")),
    ("npm authToken", "//registry.host/:_authToken=@\n", uuid),
    ("npm _auth", "//registry.host/:_auth=@\n", encoded(joined("ada:", shell_password))),
    ("heroku uuid", "HEROKU_API_KEY=@\n", uuid),
    ("heroku netrc", "machine api.heroku.com\n  login a@x.org\n  password @\n".replace("a@x.org", "ada"), uuid),
    ("codecov", "CODECOV_TOKEN=@\n", joined(some(8, HEX), some(24, HEX))),
    ("pypirc", "[pypi]\nusername = ada\npassword = @\n", shell_password),
    ("maven", "<server>\n <id>a</id>\n <password>@</password>\n</server>", password),
    ("nuget config", '<add key="ClearTextPassword" value="@" />', shell_password),
    ("bearer", "Authorization: Bearer @\n", some(40)),
    ("bearer curl", 'curl -H "Authorization: Bearer @" host', some(40)),
    ("basic", "Authorization: Basic @\n", encoded(joined("ada:", password))),
    ("token header", "Authorization: token @\n", some(40, HEX)),
    ("ssws", "Authorization: SSWS @\n", joined("00", some(40, URLSAFE))),
    ("x-api-key", "X-Api-Key: @\n", some(40)),
    ("private-token", "PRIVATE-TOKEN: @\n", some(26)),
    ("x-auth-token", "X-Auth-Token: @\n", some(32, HEX)),
    ("vault header", "X-Vault-Token: @\n", some(26)),
    ("cookie", "Cookie: theme=dark; session=@; lang=en\n", some(40)),
    ("set-cookie", "Set-Cookie: sessionid=@; Path=/; HttpOnly\n", some(32, LOWER)),
    ("php cookie", "curl -b 'PHPSESSID=@' host", some(26, LOWER)),
    ("express cookie", "connect.sid=s%3A@", joined(some(32, URLSAFE), ".", some(43))),
    ("query token", "https://host/api?user=1&access_token=@", some(40)),
    ("query key", "https://maps.host/api?key=@&v=3", some(39, URLSAFE)),
    ("jupyter", "http://localhost:8888/lab?token=@", some(48, HEX)),
    ("slack webhook", "https://hooks.slack.com/services@", joined("/T", some(10, UPPER), "/B", some(10, UPPER), "/", some(24))),
    ("discord webhook", "https://discord.com/api/webhooks@", joined("/417719834231439371/", some(68, URLSAFE))),
    ("teams webhook", "https://a.webhook.office.com/webhookb2/@", joined(uuid, "@", uuid, "/IncomingWebhook/", some(32, HEX), "/", uuid)),
    ("google chat webhook", "https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=@", some(43, URLSAFE)),
    ("zapier webhook", "https://hooks.zapier.com/hooks/catch/@", joined("4177198/", some(7, LOWER), "9/abc")),
    ("sentry dsn", "https://@\x01o417.ingest.sentry.io/4177198", some(32, HEX)),
    ("otpauth", "otpauth://totp/A:ada?secret=@&issuer=A", base32(32)),
    ("seed phrase", "mnemonic: @\n", words(12)),
    ("seed phrase 24", 'SEED_PHRASE="@"', words(24)),
    ("ethereum key", "PRIVATE_KEY=0x@\n", some(64, HEX)),
    ("bitcoin wif", "private_key: @\n", joined("K", some(51, BASE58))),
    ("shadow", "ada:@:19000:0:99999:7:::", joined("$6", "$", some(16), "$", some(86))),
    ("htpasswd file", "ada:@\n", joined("$2", "y$05$", some(53))),
    ("cisco", "enable secret 5 @\n", joined("$1", "$", some(4), "$", some(22))),
    ("ngrok", "ngrok config add-authtoken @", joined("2", some(26), "_", some(21))),
    ("aws cli configure", "aws configure set aws_secret_access_key @\n", some(40, BASE64)),
    ("datadog", "DD_API_KEY=@\n", some(32, HEX)),
    ("mailjet", "MJ_APIKEY_PRIVATE=@\n".replace("_PRIVATE", ""), some(32, HEX)),
    ("twilio auth", "TWILIO_AUTH_TOKEN=@\n", some(32, HEX)),
    ("algolia", "ALGOLIA_ADMIN_API_KEY=@\n", some(32, HEX)),
    ("jwt secret", "JWT_SECRET=@\n", some(48)),
    ("fernet", "ENCRYPTION_KEY=@\n", joined(some(43, URLSAFE), "=")),
    ("kafka jaas", "sasl.jaas.config=x required username=\"a\" password=\"@\";", shell_password),
    ("git credentials", "https://ada:@\x01github.com\n", some(40)),
    ("composer auth", '{"http-basic": {"a": {"username": "b", "password": "@"}}}', password),
    ("azure function", "https://a.azurewebsites.net/api/b?code=@\n", joined(some(54), "==")),
    ("infura", "https://mainnet.infura.io/v3/@\n", some(32, HEX)),
    ("openweather", "https://a.org/data?q=b&appid=@\n", some(32, HEX)),
    ("vault unseal", "Unseal Key 1: @\n", joined(some(43), "=")),
    ("uuid token", "SNYK_TOKEN=@\n", uuid),
    ("azure pat", "AZURE_DEVOPS_EXT_PAT=@\n", some(52, string.ascii_lowercase + string.digits)),
    ("mailer", "auth: { user: 'a', pass: '@' }", joined(some(16), "7a8B9c")),
    ("php constant", "define( 'DB_PASSWORD', '@' );", shell_password),
    ("dockerfile", "ENV DB_PASSWORD @\n", shell_password),
    ("default", "os.environ.setdefault('API_TOKEN', '@')", some(24)),
    ("basic auth", "requests.get(url, auth=('ada', '@'))", shell_password),
    ("german", "Passwort: @\n", shell_password),
    ("german prose", "Das Passwort lautet @ und gilt ab heute.", shell_password),
    ("cohere", "COHERE_API_KEY=@\n", joined("co_", some(41, string.ascii_letters))),
    ("letters", 'set "api_key": "@" there', some(18, string.ascii_letters)),
    ("lower case", "SECRET_KEY=@\n", some(24, string.ascii_lowercase)),
    ("short bearer", "Authorization: Bearer @\n", some(20, string.ascii_letters)),
    ("app password", "app password: @\n", joined("xkcd ", "qwrt ", "zvbn ", "plmk")),
    ("form", "user%3Dada%26password%3D@\n", joined(some(20), "7")),
    ("parameter", "aws ssm put-parameter --name /a --value @ --type SecureString\n", shell_password),
    ("gh login", "gh auth login --with-token <<< @\n", shell_password),
    ("prose", "The password is: @, please keep it.", shell_password),
    ("passphrase", 'passphrase = "@"', joined(words(2), " 7", some(4), " ", words(1))),
]  # fmt: skip
"""Values that only their context marks as secret."""


def contexts(text: str, value: str) -> dict[str, tuple[str, str]]:
    """Return a text with a secret as it may stand in a session, with the secret as written there."""
    once, twice = json.dumps(text)[1:-1], json.dumps(json.dumps({"a": text}))[1:-1]
    return {
        "alone": (text, value),
        "prose": (f"I ran this:\n\n{text}\n\nand it worked.", value),
        "json": (f'{{"content":"{once}"}}', json.dumps(value)[1:-1]),
        "json in json": (twice, json.dumps(json.dumps(value)[1:-1])[1:-1]),
        "terminal": (f"\x1b[32m$\x1b[0m {text}\x1b[0m", value),
        "indented": ("  " + text.replace("\n", "\n  "), value.replace("\n", "\n  ")),
    }


TOKEN_FRAMES = (
    "@",
    "export X=@",
    '"x": "@"',
    "x: @",
    "see (@).",
    "a=@&b=1",
    "https://host/p/@",
    "xx@",
    "`@`",
    "'@',",
    "\x1b[1m@\x1b[0m",
)
"""Around a token: shell, JSON, YAML, prose, a query, a path, letters glued to it, code, colours."""

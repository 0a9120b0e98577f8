#!/bin/sh
# Pass the payload of a hook to turnlog in the background, and return at once.
#
# The client waits for its hooks, and takes an exit code of 2 for a decision. So the command in
# hooks.json exits with 0 whatever happens, and reads this file instead of starting another shell.
# What turnlog does may take longer than the client lives: it gets a session of its own where there
# is setsid.
payload=$(cat)
root=${f%/hooks/*}
detach=
command -v setsid >/dev/null 2>&1 && detach=setsid
(
    trap '' HUP INT
    printf '%s' "$payload" | $detach nice sh "$root/bin/turnlog" plugin run "$event"
) >/dev/null 2>&1 &
